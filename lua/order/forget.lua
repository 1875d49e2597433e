#!lua flags=allow-oom
-- uses: _read
--[[ Delete the records of orders that were kept long enough after their end.
KEYS[1..2]   st:{o:x}:index done
KEYS[3..]    st:{o:x}:o:<id>        one an id
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {how many}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(ids * log orders). ]]
local now = now_ms(tonumber(ARGV[1]))
read('index', 'ZCARD', KEYS[1])
read('done', 'ZCARD', KEYS[2])
local gone, ids = {}, {}
for at = 3, #KEYS do
  local id = sub(KEYS[at], -22)
  local keep_until = tonumber(redis.call('ZSCORE', KEYS[2], id) or 'inf')
  if keep_until <= now then
    gone[#gone + 1], ids[#ids + 1] = KEYS[at], id
  end
end
-- Phase 2.
if #gone > 0 then
  redis.call('DEL', unpack(gone))
  redis.call('ZREM', KEYS[1], unpack(ids))
  redis.call('ZREM', KEYS[2], unpack(ids))
end
return { format('%d', #gone) }
