#!lua flags=allow-oom
-- uses: _read _stock _rules
--[[ Pause, resume or close a sale.
KEYS[1..4]   st:{sale}:rules stock skus events
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      status                 "paused" | "active" | "closed"
Returns      {"changed" | "unchanged", now, sale text} | {"unknown_sale"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local rules_key, stock_key, skus_key, events_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local WORDS = { paused = 'paused', active = 'resumed', closed = 'closed' }

local now = now_ms(tonumber(ARGV[1]))
local rules = read_rules(rules_key)
if not rules or rules.status == 'deleted' then
  return { 'unknown_sale' }
end
local sku_count = read('skus', 'ZCARD', skus_key)
local totals = read_levels(stock_key, {})['']
read('events', 'XLEN', events_key)
if rules.status == ARGV[2] then
  return { 'unchanged', format('%d', now), sale_text(rules, sku_count, totals) }
end
local previous = rules.status
rules.status, rules.version = ARGV[2], rules.version + 1
local text = sale_text(rules, sku_count, totals)
local event = WORDS[ARGV[2]] .. '\n' .. previous .. '\n' .. text
-- Phase 2.
redis.call('HSET', rules_key, 'status', rules.status, 'version', format('%d', rules.version))
write_events(events_key, now, { event })
return { 'changed', format('%d', now), text }
