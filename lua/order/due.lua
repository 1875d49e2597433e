#!lua flags=no-writes
-- uses: _read
--[[ What the sweeper has to do in a bucket of orders, and when it must look again.
KEYS[1..2]   st:{o:x}:due done
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      limit                  most ids of each kind
Returns      {now, next_ms, ids to recover, ids to forget}; next_ms is the earliest time that is still to come ('' =
             none); ids are joined by commas
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(limit + log orders). ]]
local now = now_ms(tonumber(ARGV[1]))
local lists, next_ms = {}, nil
for n, what in ipairs({ 'due', 'done' }) do
  read(what, 'ZCARD', KEYS[n])
  local ids = redis.call('ZRANGE', KEYS[n], '-inf', format('%d', now), 'BYSCORE', 'LIMIT', 0, ARGV[2])
  lists[n] = concat(ids, ',')
  local first = redis.call('ZRANGE', KEYS[n], format('(%d', now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  local score = tonumber(first[2])
  if score and score < 2 ^ 53 and (not next_ms or score < next_ms) then
    next_ms = score
  end
end
return { format('%d', now), next_ms and format('%d', next_ms) or '', lists[1], lists[2] }
