#!lua
--[[ Hold the units of one line for one buyer: the work of a reservation, one script call a request.
This is what a service without group commit would do. It is measured against, never shipped.
KEYS[1]  st:{sale}:rules      hash    read
KEYS[2]  st:{sale}:stock      hash    <sku>:a available, <sku>:h held, :a and :h the totals
KEYS[3]  st:{sale}:buyers:n   hash    buyer -> holds|units|sku=n
KEYS[4]  st:{sale}:due        zset    id by deadline
KEYS[5]  st:{sale}:events     stream  one entry
KEYS[6]  st:{sale}:r:<id>     string  the record
ARGV[1]  id
ARGV[2]  buyer
ARGV[3]  sku
ARGV[4]  quantity
ARGV[5]  fingerprint
Returns  {"held", created_ms, expires_ms, until_ms} | {"replayed", record} | {"reused"} | {"sale_not_open"}
         | {"buyer_limit"} | {"sold_out", available}
Writes   after the last check. Cost O(log holds). ]]
local rules_key, stock_key, buyers_key = KEYS[1], KEYS[2], KEYS[3]
local due_key, events_key, record_key = KEYS[4], KEYS[5], KEYS[6]
local id, buyer, sku, quantity, fingerprint = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local rules = redis.call('HMGET', rules_key, 'status', 'hold_ms', 'hold_ms_max', 'buyer_limit')
local record = redis.call('GET', record_key)
if record then
  if not string.find(record, '\n' .. fingerprint .. '\n', 1, true) then return { 'reused' } end
  return { 'replayed', record }
end
if rules[1] ~= 'active' then return { 'sale_not_open' } end

local of_buyer = redis.call('HGET', buyers_key, buyer)
local holds, units = 0, 0
if of_buyer then
  holds, units = string.match(of_buyer, '^(%d+)|(%d+)|')
  holds, units = tonumber(holds), tonumber(units)
end
if units + quantity > tonumber(rules[4]) then return { 'buyer_limit' } end

local stock = redis.call('HMGET', stock_key, sku .. ':a', sku .. ':h', ':a', ':h')
local available = tonumber(stock[1])
if available < quantity then return { 'sold_out', available } end

local created = string.format('%d', now)
local expires = string.format('%d', now + tonumber(rules[2]))
local until_ms = string.format('%d', now + tonumber(rules[3]))
local lines = sku .. '=' .. string.format('%d', quantity)
record = table.concat({ 'held', expires, created, '', until_ms, '1', '', fingerprint, lines, buyer, '', '' }, '\n')
local entry = string.format('%d|%d|%s=%d', holds + 1, units + quantity, sku, units + quantity)

redis.call('HSET', stock_key, sku .. ':a', available - quantity, sku .. ':h', tonumber(stock[2]) + quantity,
  ':a', tonumber(stock[3]) - quantity, ':h', tonumber(stock[4]) + quantity)
redis.call('HSET', buyers_key, buyer, entry)
redis.call('ZADD', due_key, expires, id)
redis.call('SET', record_key, record)
redis.call('XADD', events_key, '*', 'held', id .. '\n' .. record)
return { 'held', created, expires, until_ms }
