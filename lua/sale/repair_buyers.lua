#!lua flags=allow-oom
-- uses: _read
--[[ Set counts of buyers to what the records say, if no record has changed since the audit read them.
KEYS[1..3]   st:{sale}:rules stock skus
KEYS[4..19]  st:{sale}:buyers:<0..f>
ARGV[1]      generation             of the sale, as the caller knows it
ARGV[2]      revisions              the sum over all SKUs, as the audit has read them
ARGV[3..]    buyers                 bucket (0..15), name, entry as it was read, entry as it must be ('' = none) of each
Returns      {"ok", "", "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      repaired | moved
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(SKUs of the sale + buyers). ]]
local rules_key, stock_key, skus_key = KEYS[1], KEYS[2], KEYS[3]
local BUYERS_AT = 4

local found = read('rules', 'HMGET', rules_key, 'generation', 'status')
if not found[1] or found[2] == 'deleted' then
  return { 'unknown_sale' }
elseif found[1] ~= ARGV[1] then
  return { 'stale_generation' }
end
local names, revisions = read('skus', 'ZRANGE', skus_key, 0, -1), 0
for first = 1, #names, 3000 do
  local fields = {}
  for n = first, math.min(first + 2999, #names) do
    fields[#fields + 1] = names[n] .. ':r'
  end
  local values = read('stock', 'HMGET', stock_key, unpack(fields))
  for n = 1, #fields do
    revisions = revisions + whole(values[n], 'stock')
  end
end
local stands_still = format('%d', revisions) == ARGV[2]
local answers, set, gone = { 'ok', '', '', '' }, {}, {}
for at = 3, #ARGV, 4 do
  local key, buyer, seen, right = KEYS[BUYERS_AT + tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local entry = read('buyers', 'HGET', key, buyer) or ''
  if stands_still and entry == seen then
    local list = right == '' and gone or set
    list[#list + 1] = { key, buyer, right }
    answers[#answers + 1] = 'repaired'
  else
    answers[#answers + 1] = 'moved'
  end
end
-- Phase 2.
for n = 1, #set do
  redis.call('HSET', set[n][1], set[n][2], set[n][3])
end
for n = 1, #gone do
  redis.call('HDEL', gone[n][1], gone[n][2])
end
return answers
