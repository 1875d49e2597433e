#!lua
-- uses: _read _order _order_write
--[[ Register an order before the first of its parts is held; or say what became of the one that its key has made.
KEYS[1..4]   st:{o:x}:index due done events
KEYS[5]      st:{o:x}:o:<id>
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      attempt                random; whoever knows it works on the order
ARGV[3]      lease_ms               after that anybody may undo it
ARGV[4]      lines                  sale=sku=asked_sku=quantity=part,...
ARGV[5]      fingerprint            of the request: another body under the same key
ARGV[6..9]   hold_ms ('' = as each sale says), buyer, reference, metadata
Returns      {"begun" | "exists", now, previous status, text} | {"idempotency_key_reused", now}
             text is the id and the record, one field a line; a held one that is late is shown as expired
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(log orders). ]]
local now = now_ms(tonumber(ARGV[1]))
local order = read_order(order_key)
if order == nil then
  corrupt('order')
end
check_order_types()
if order then
  if order[FINGERPRINT] ~= ARGV[5] then
    return { 'idempotency_key_reused', format('%d', now) }
  end
  return { 'exists', format('%d', now), order[STATUS], order_text(order_key, seen_order(order, now)) }
end
order = { 'holding', ARGV[2], format('%d', now), '', '', '', ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9] }
-- Phase 2.
redis.call('ZADD', index_key, 0, sub(order_key, -22))
go_on(order, now + tonumber(ARGV[3]))
return { 'begun', format('%d', now), '', order_text(order_key, order) }
