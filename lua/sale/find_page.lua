#!lua
-- uses: _read
--[[ Find a page of levels that all processes share; where it is old or missing, choose who makes it anew.
KEYS[1..4]   st:{sale}:rules skus levels:<page> rebuild:<page>
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      fresh_ms               a page younger than this is as good as a new one
ARGV[3]      stale_ms               one that is not even younger than this is none
ARGV[4]      guard_ms               how long the page is left to whom it was given to make
Returns      {"fresh" | "stale", generation, SKUs of the sale, as_of, levels} | {"yours"} (to make anew)
             | {"none"} (and somebody else makes it) | {"unknown_sale"}
Errors       CORRUPT what           a key of the sale holds what no script wrote; a page that does is none
Writes       the guard, and neither to the log nor to replicas. Cost O(levels). ]]
local page_key, guard_key = KEYS[3], KEYS[4]

local found = read('rules', 'HMGET', KEYS[1], 'generation', 'status')
if not found[1] or found[2] == 'deleted' then
  return { 'unknown_sale' }
end
local now, sku_count = now_ms(tonumber(ARGV[1])), format('%d', read('skus', 'ZCARD', KEYS[2]))
-- SKUs are never removed, so a page with as many of this very incarnation has the same names at the same ranks.
local generation, skus, as_of, levels = match(read_text(page_key) or '', '^(%w+)\n(%d+)\n(%d+)\n(.*)$')
local age = as_of and now - as_of or -1
local is_there = generation == found[1] and skus == sku_count and age >= 0 and age < tonumber(ARGV[3])
if is_there and age < tonumber(ARGV[2]) then
  return { 'fresh', generation, skus, as_of, levels }
end
-- Phase 2. What may be lost at any time is not worth a sync of the log.
redis.set_repl(redis.REPL_NONE)
if redis.call('SET', guard_key, '', 'NX', 'PX', ARGV[4]) then
  return { 'yours' }
end
return is_there and { 'stale', generation, skus, as_of, levels } or { 'none' }
