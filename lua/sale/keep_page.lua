#!lua
-- uses: _read
--[[ Keep a page of levels for all processes, for a moment.
KEYS[1..3]   st:{sale}:rules skus levels:<page>
ARGV[1]      generation             of the sale when the levels were read
ARGV[2]      SKUs of the sale       likewise
ARGV[3]      as_of                  likewise, in ms
ARGV[4]      levels
ARGV[5]      stale_ms               when it runs out
Returns      {"kept"} | {"stale_generation"} (or more SKUs by now, or deleted: nothing is written)
Errors       CORRUPT what           a key holds what no script wrote
Writes       the page, and neither to the log nor to replicas. Cost O(levels). ]]
local found = read('rules', 'HMGET', KEYS[1], 'generation', 'status')
local sku_count = format('%d', read('skus', 'ZCARD', KEYS[2]))
if found[1] ~= ARGV[1] or found[2] == 'deleted' or sku_count ~= ARGV[2] then
  return { 'stale_generation' }
end
-- Phase 2. What may be lost at any time is not worth a sync of the log.
redis.set_repl(redis.REPL_NONE)
redis.call('SET', KEYS[3], concat({ ARGV[1], ARGV[2], ARGV[3], ARGV[4] }, '\n'), 'PX', ARGV[5])
return { 'kept' }
