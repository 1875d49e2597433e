#!lua
-- uses: _read _barrier
--[[ Declare participants that are still to come: all of them, or none.
KEYS[1..2]   st:{b:x}:due events
KEYS[3..6]   st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2..]    names                  at most 1,000
Returns      {"declared" | "replayed" | "barrier_ended", now, previous status, text} | {"unknown_barrier"} |
             {"names_not_kept"} (mode count) | {"unknown_participant", name} (the first one too many) |
             {"too_many_participants"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check; a late barrier times out, whatever is answered. Cost O(names * log participants). ]]
local due_key, events_key = KEYS[1], KEYS[2]
local NAMES_AT = 2
local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
read('events', 'XLEN', events_key)
local barrier = the_barrier(3)
if not barrier then
  return { 'unknown_barrier' }
elseif barrier.mode == 'count' then
  return { 'names_not_kept' }
end
local previous = barrier.status
time_out_if_late(barrier, now)
local marks = redis.call('ZMSCORE', barrier.marks_key, unpack(ARGV, NAMES_AT))
local missing = redis.call('ZMSCORE', barrier.missing_key, unpack(ARGV, NAMES_AT))
local new = {}
for n = 1, #marks do
  if not marks[n] and not missing[n] then
    new[#new + 1], new[#new + 2] = 0, ARGV[NAMES_AT - 1 + n]
  end
end
local word = 'replayed'
if #new > 0 and barrier.status ~= 'open' then
  word, new = 'barrier_ended', {}
elseif #new > 0 then
  local room = (barrier.expected == '' and PARTICIPANTS_MAX or barrier.expected) - barrier.declared
  if #new / 2 > room then
    if barrier.expected == '' then
      return { 'too_many_participants' }
    end
    return { 'unknown_participant', new[2 * room + 2] }
  end
  word, barrier.declared = 'declared', barrier.declared + #new / 2
end
-- Phase 2.
call_chunked('ZADD', barrier.missing_key, new)
write_barrier(barrier, due_key)
write_events(events_key, now, barrier_events)
return { word, format('%d', now), previous, barrier_text(barrier) }
