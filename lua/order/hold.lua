#!lua
-- uses: _read _order _order_write
--[[ All parts of an order are held.
KEYS[1..4]   st:{o:x}:index due done events
KEYS[5]      st:{o:x}:o:<id>
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      attempt                of whoever has held them
ARGV[3]      lines                  with the SKUs that were taken
ARGV[4]      expires_ms             earliest deadline of a part
Returns      {"held", now, previous status, text} | {"lost", now}: somebody else works on it, or did
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(log orders). ]]
local now = now_ms(tonumber(ARGV[1]))
local order = read_order(order_key)
if order == nil then
  corrupt('order')
end
check_order_types()
if not order or order[STATUS] ~= 'holding' or order[ATTEMPT] ~= ARGV[2] then
  return { 'lost', format('%d', now) }
end
order[STATUS], order[LINES], order[EXPIRES_AT] = 'held', ARGV[3], ARGV[4]
-- Phase 2.
go_on(order, tonumber(ARGV[4]))
tell(order, 'holding', now)
return { 'held', format('%d', now), 'holding', order_text(order_key, order) }
