#!lua flags=no-writes
-- uses: _read _stock
--[[ Read levels: of one SKU, or of a page of them by name.
KEYS[1..3]   st:{sale}:rules stock skus
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      "one", "page" or "ranks"
ARGV[3]      SKU; the name after which the page begins ('' = from the start); or its first rank, from 0
ARGV[4]      limit                  of a page
Returns      {"found", now, generation, SKUs of the sale, sku a h s g limit, ...} | {"unknown_sale"}
             | {"unknown_sku", name}
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(limit + log SKUs). ]]
local now = now_ms(tonumber(ARGV[1]))
local found = read('rules', 'HMGET', KEYS[1], 'generation', 'status')
if not found[1] or found[2] == 'deleted' then
  return { 'unknown_sale' }
end
local sku_count = read('skus', 'ZCARD', KEYS[3])
local skus = { ARGV[3] }
if ARGV[2] == 'page' then
  local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
  skus = redis.call('ZRANGE', KEYS[3], from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
elseif ARGV[2] == 'ranks' then
  skus = redis.call('ZRANGE', KEYS[3], ARGV[3], ARGV[3] + ARGV[4] - 1)
end
local levels = read_levels(KEYS[2], skus)
local answers = { 'found', format('%d', now), found[1], format('%d', sku_count) }
for n = 1, #skus do
  if not levels[skus[n]] then
    return { 'unknown_sku', skus[n] }
  end
  answers[#answers + 1] = level_text(skus[n], levels[skus[n]])
end
return answers
