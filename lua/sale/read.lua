#!lua flags=no-writes
-- uses: _read _stock _rules
--[[ Read a sale.
KEYS[1..3]   st:{sale}:rules stock skus
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {"found", now, sale text} | {"unknown_sale"}; a tombstone is shown with status deleted
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(1). ]]
local now = now_ms(tonumber(ARGV[1]))
local rules = read_rules(KEYS[1])
if not rules then
  return { 'unknown_sale' }
end
local sku_count = read('skus', 'ZCARD', KEYS[3])
return { 'found', format('%d', now), sale_text(rules, sku_count, read_levels(KEYS[2], {})['']) }
