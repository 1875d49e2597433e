#!lua flags=no-writes
-- uses: _read
--[[ What is to be done for one endpoint, and when to look again.
KEYS[1..3]   st:{w:id}:due done dead
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      limit                  most ids of each kind
ARGV[3]      ended_max              most ids that done and dead may hold
Returns      {now, next_ms, pending, delivered, dead, ids that are due, ids of done to forget, ids of dead to forget};
             next_ms is the earliest next try or end of a lease that is not past ('' = none); ids are joined by commas
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(limit + log n). ]]
local now = now_ms(tonumber(ARGV[1]))
local limit, ended_max = tonumber(ARGV[2]), tonumber(ARGV[3])
local at = format('%d', now)
local pending = read('due', 'ZCARD', KEYS[1])
local due = redis.call('ZRANGE', KEYS[1], '-inf', at, 'BYSCORE', 'LIMIT', 0, limit)
local later = redis.call('ZRANGE', KEYS[1], '(' .. at, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')

-- The oldest come first: those whose time is over, and those beyond the number.
local function to_forget(what, key)
  local count, ids = read(what, 'ZCARD', key), {}
  local oldest = redis.call('ZRANGE', key, 0, limit - 1, 'WITHSCORES')
  for n = 1, #oldest, 2 do
    if tonumber(oldest[n + 1]) <= now or (n - 1) / 2 < count - ended_max then
      ids[#ids + 1] = oldest[n]
    end
  end
  return format('%d', count), concat(ids, ',')
end

local done_count, done_ids = to_forget('done', KEYS[2])
local dead_count, dead_ids = to_forget('dead', KEYS[3])
return {
  at, later[2] and format('%d', tonumber(later[2])) or '', format('%d', pending), done_count, dead_count,
  concat(due, ','), done_ids, dead_ids,
}
