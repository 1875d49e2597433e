#!lua flags=allow-oom
-- uses: _read _delivery
--[[ Remove deliveries that have ended long ago, or beyond the number that is kept; of a deleted endpoint, any.
KEYS[1..3]   st:{w:id}:due done dead
KEYS[4..]    st:{w:id}:d:<event>    each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      ended_max              most ids that done and dead may hold; '' for a deleted endpoint: none, nor due
Returns      {"ok", now, "", "", answer...}
Answers      forgotten | overflown (a dead one, before its time) | kept
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(records * log n). ]]
local due_key, done_key, dead_key = KEYS[1], KEYS[2], KEYS[3]
local ended_max = tonumber(ARGV[2])

local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
local beyond = {}
for what, key in pairs({ done = done_key, dead = dead_key }) do
  beyond[key] = read(what, 'ZCARD', key) - (ended_max or 0)
end
local answers, gone, ids = { 'ok', format('%d', now), '', '' }, {}, {}
for n = 4, #KEYS do
  local id, answer = id_of(KEYS[n]), 'kept'
  for key, count in pairs(beyond) do
    local score = redis.call('ZSCORE', key, id)
    if score and tonumber(score) <= now then
      answer = 'forgotten'
    elseif score and redis.call('ZRANK', key, id) < count then
      answer = key == dead_key and 'overflown' or 'forgotten'
    end
  end
  if not ended_max then
    answer = 'forgotten'
  end
  if answer ~= 'kept' then
    gone[#gone + 1], ids[#ids + 1] = KEYS[n], id
  end
  answers[#answers + 1] = answer
end
-- Phase 2.
write_deliveries({}, gone)
for n = 1, 3 do
  call_chunked('ZREM', KEYS[n], ids)
end
return answers
