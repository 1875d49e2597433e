#!lua flags=no-writes
-- uses: _read
--[[ What the sweeper has to do in a bucket, and when it must look again.
KEYS[1..2]   st:{b:x}:due events
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      limit                  most names
Returns      {now, next_ms, entries, oldest_ms, name...}: next_ms is the earliest deadline or removal ('' = none),
             oldest_ms the time of the oldest entry of events ('' = none)
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(limit + log barriers). ]]
local due_key, events_key = KEYS[1], KEYS[2]
local now = now_ms(tonumber(ARGV[1]))
local first = read('due', 'ZRANGE', due_key, 0, 0, 'WITHSCORES')
local entries = read('events', 'XLEN', events_key)
local oldest = redis.call('XRANGE', events_key, '-', '+', 'COUNT', 1)[1]
-- A damaged entry is the trouble of whoever reads events, not of the sweeper.
local oldest_ms = oldest and match(oldest[2][2] or '', '^%d+$') or ''
local next_ms = tonumber(first[2])
local answer = { format('%d', now), next_ms and format('%d', next_ms) or '', format('%d', entries),
  #oldest_ms <= 15 and oldest_ms or '' }
for _, name in ipairs(redis.call('ZRANGE', due_key, '-inf', format('%d', now), 'BYSCORE', 'LIMIT', 0, ARGV[2])) do
  answer[#answer + 1] = name
end
return answer
