#!lua flags=no-writes
-- uses: _read
--[[ Ids of a zset after a cursor, in order of (score, id).
KEYS[1]      st:{sale}:due or done or pinned
ARGV[1]      score of the cursor    '' = from the start
ARGV[2]      id of the cursor
ARGV[3]      limit
Returns      {id, score, ...}
Errors       CORRUPT list           the key is not a zset
Writes       nothing. Cost O(log^2 n + limit). ]]
local score, id, limit = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

-- Lua's <= follows the server's locale; Redis orders the members of a zset by their bytes.
local function is_up_to(member, cursor)
  for n = 1, #member do
    local one, other = string.byte(member, n), string.byte(cursor, n) or -1
    if one ~= other then
      return one < other
    end
  end
  return true
end

-- The first rank behind the cursor, by bisection: the cursor's own member may be gone.
local low, high = 0, read('list', 'ZCARD', KEYS[1])
while score and low < high do
  local middle = floor((low + high) / 2)
  local member = redis.call('ZRANGE', KEYS[1], middle, middle, 'WITHSCORES')
  local member_score = tonumber(member[2])
  if member_score < score or (member_score == score and is_up_to(member[1], id)) then
    low = middle + 1
  else
    high = middle
  end
end
return redis.call('ZRANGE', KEYS[1], low, low + limit - 1, 'WITHSCORES')
