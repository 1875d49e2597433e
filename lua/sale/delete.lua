#!lua flags=allow-oom
-- uses: _read _stock _rules
--[[ Delete a sale that holds nothing and is closed or has sold nothing: leave a tombstone, which the purger removes.
KEYS[1..4]   st:{sale}:rules stock skus events
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {"deleted" | "replayed", now} | {"unknown_sale"} | {"sale_not_empty", held, sold}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local rules_key, stock_key, skus_key, events_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = now_ms(tonumber(ARGV[1]))
local rules = read_rules(rules_key)
if not rules then
  return { 'unknown_sale' }
elseif rules.status == 'deleted' then
  return { 'replayed', format('%d', now) }
end
local sku_count = read('skus', 'ZCARD', skus_key)
local totals = read_levels(stock_key, {})['']
read('events', 'XLEN', events_key)
local closes_at = whole_or_nil(rules.closes_at_ms, 'rules')
local is_closed = rules.status == 'closed' or (closes_at and now >= closes_at)
if totals.h > 0 or (totals.s > 0 and not is_closed) then
  return { 'sale_not_empty', format('%d', totals.h), format('%d', totals.s) }
end
local previous = rules.status
rules.status, rules.version = 'deleted', rules.version + 1
local event = 'deleted\n' .. previous .. '\n' .. sale_text(rules, sku_count, totals)
-- Phase 2.
redis.call('HSET', rules_key, 'status', 'deleted', 'version', format('%d', rules.version), 'deleted_at_ms',
  format('%d', now))
write_events(events_key, now, { event })
return { 'deleted', format('%d', now) }
