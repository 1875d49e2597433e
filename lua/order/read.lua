#!lua flags=no-writes
-- uses: _read _order
--[[ Show an order.
KEYS[1..4]   st:{o:x}:index due done events
KEYS[5]      st:{o:x}:o:<id>
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {"found", now, status, text}; a held one that is late is shown as expired | {"unknown_order", now}
Errors       CORRUPT what           the record is what no script wrote
Writes       nothing. Cost O(1). ]]
local now = now_ms(tonumber(ARGV[1]))
local order = read_order(order_key)
if order == nil then
  corrupt('order')
elseif not order then
  return { 'unknown_order', format('%d', now) }
end
return { 'found', format('%d', now), order[STATUS], order_text(order_key, seen_order(order, now)) }
