-- The script that many shops write for a flash sale: check, take, remember the buyer. It decides atomically and does
-- not oversell. `make demo-lua` shows what it cannot do. Stockade's own scripts are in lua/.
--
-- KEYS[1]  stock:<sku>    how many are left
-- KEYS[2]  buyers:<sku>   hash: buyer -> units taken
-- ARGV[1]  buyer
-- ARGV[2]  quantity
-- ARGV[3]  limit a buyer
-- Returns  units left, or -1 sold out, -2 limit reached, -3 no such SKU
local stock = redis.call('GET', KEYS[1])
if not stock then
  return -3
end

local quantity = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])

local bought = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if bought + quantity > limit then
  return -2
end

if tonumber(stock) < quantity then
  return -1
end

redis.call('HINCRBY', KEYS[2], ARGV[1], quantity)
return redis.call('DECRBY', KEYS[1], quantity)
