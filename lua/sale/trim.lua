#!lua flags=allow-oom
-- uses: _read
--[[ Remove the oldest entries of a sale's events in one bounded step: those that are too old, or too many.
KEYS[1..2]   st:{sale}:rules events
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      retention_ms           entries older than this go
ARGV[4]      entries_max            and those beyond so many
ARGV[5]      limit                  most entries of one call; fewer where they are big
ARGV[6]      group                  whose entries are counted that it had not acknowledged: the limits win
Returns      {"trimmed", now, entries removed, of these not acknowledged} | {"kept", now} (nothing may go) |
             {"unknown_sale"} (none, or deleted) | {"stale_generation"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(entries removed); at most about 256 KB of them are read. ]]
local rules_key, events_key = KEYS[1], KEYS[2]
local generation, group = ARGV[2], ARGV[6]
local retention_ms, entries_max, limit = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
-- Entries are read whole, and their size differs a thousandfold: Redis must not stand still for one step.
local STEP_BYTES = 262144

local now = now_ms(tonumber(ARGV[1]))
local found = read('rules', 'HMGET', rules_key, 'generation', 'status')
if not found[1] or found[2] == 'deleted' then
  return { 'unknown_sale' }
elseif found[1] ~= generation then
  return { 'stale_generation' }
end
local count = read('events', 'XLEN', events_key)

local function events_of(entry)
  local fields = entry[2]
  if #fields ~= 4 then
    corrupt('events')
  end
  return whole(fields[2], 'events'), fields[4]
end

-- Whether the id of an entry comes before another one.
local function is_before(id, other)
  local ms, seq = match(id, '^(%d+)-(%d+)$')
  local other_ms, other_seq = match(other, '^(%d+)-(%d+)$')
  ms, other_ms = tonumber(ms), tonumber(other_ms)
  return ms < other_ms or (ms == other_ms and tonumber(seq) < tonumber(other_seq))
end

local function may_go(entry, left)
  local at = events_of(entry)
  return left > entries_max or at < now - retention_ms
end

-- How far the group has read; nil when there is none.
local function last_read()
  for _, fields in ipairs(redis.call('XINFO', 'GROUPS', events_key)) do
    local named = {}
    for n = 1, #fields, 2 do
      named[fields[n]] = fields[n + 1]
    end
    if named.name == group then
      return named['last-delivered-id']
    end
  end
end

-- The oldest one alone says that there is nothing to do, or how many to read.
local oldest = redis.call('XRANGE', events_key, '-', '+', 'COUNT', 1)[1]
if not oldest or not may_go(oldest, count) then
  return { 'kept', format('%d', now) }
end
local _, events = events_of(oldest)
local fit = math.max(1, math.min(limit, floor(STEP_BYTES / (#events + 1))))
local removed, last, unread = 0, nil, 0
local read_to = last_read()
for _, entry in ipairs(redis.call('XRANGE', events_key, '-', '+', 'COUNT', fit)) do
  if not may_go(entry, count - removed) then
    break
  end
  removed, last = removed + 1, entry
  if read_to and is_before(read_to, entry[1]) then
    unread = unread + 1
  end
end
-- What a consumer has read and not finished: nobody could read it again.
local unfinished = {}
if read_to then
  for _, entry in ipairs(redis.call('XPENDING', events_key, group, '-', last[1], removed)) do
    unfinished[#unfinished + 1] = entry[1]
  end
end
-- The cursor of the last event that goes: whoever has read it misses nothing.
_, events = events_of(last)
local _, separators = string.gsub(events, '\30', '')
-- Phase 2.
redis.call('XTRIM', events_key, 'MAXLEN', '=', format('%d', count - removed))
redis.call('HSET', rules_key, 'events_trimmed', last[1] .. '-' .. format('%d', separators))
if #unfinished > 0 then
  redis.call('XACK', events_key, group, unpack(unfinished))
end
return { 'trimmed', format('%d', now), format('%d', removed), format('%d', unread + #unfinished) }
