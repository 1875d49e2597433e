#!lua flags=no-writes
-- uses: _read _stock
--[[ Read levels: of one SKU, or of a page of them by name.
KEYS[1..3]   st:{sale}:rules stock skus
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      "one" or "page"
ARGV[3]      SKU, or the name after which the page begins ('' = from the start)
ARGV[4]      limit                  of a page
Returns      {"found", now, sku a h s g limit, ...} | {"unknown_sale"} | {"unknown_sku", name}
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(limit + log SKUs). ]]
local now = now_ms(tonumber(ARGV[1]))
local status = read('rules', 'HGET', KEYS[1], 'status')
if not status or status == 'deleted' then
  return { 'unknown_sale' }
end
local skus = { ARGV[3] }
if ARGV[2] == 'page' then
  local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
  skus = read('skus', 'ZRANGE', KEYS[3], from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
end
local levels = read_levels(KEYS[2], skus)
local answers = { 'found', format('%d', now) }
for n = 1, #skus do
  if not levels[skus[n]] then
    return { 'unknown_sku', skus[n] }
  end
  answers[#answers + 1] = level_text(skus[n], levels[skus[n]])
end
return answers
