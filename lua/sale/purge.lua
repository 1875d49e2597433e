#!lua flags=allow-oom
-- uses: _read
--[[ Remove what a deleted sale left, in bounded steps: records first, then the keys of the sale, the tombstone last.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..26] st:{sale}:skus adjustments fence
KEYS[27..]   st:{sale}:r:<id>       records to remove, named by done or orphans
ARGV[1]      generation             of the deleted sale
ARGV[2]      keep_events            1: records only, for events are still to be read; '': all
Returns      {"purging", ids left} | {"purged"} | {"not_deleted"} (the sale, or this incarnation, isn't a tombstone)
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(records); the big keys are freed by UNLINK, off the main thread. ]]
local rules_key, done_key, orphans_key = KEYS[1], KEYS[5], KEYS[6]
local RECORDS_AT = 27

local found = read('rules', 'HMGET', rules_key, 'generation', 'status')
if found[2] ~= 'deleted' or found[1] ~= ARGV[1] then
  return { 'not_deleted' }
end
local ids, records = {}, {}
for at = RECORDS_AT, #KEYS do
  records[#records + 1], ids[#ids + 1] = KEYS[at], sub(KEYS[at], -22)
end
local left = read('done', 'ZCARD', done_key) + read('orphans', 'ZCARD', orphans_key)
-- Phase 2.
if #ids > 0 then
  redis.call('UNLINK', unpack(records))
  left = left - redis.call('ZREM', done_key, unpack(ids)) - redis.call('ZREM', orphans_key, unpack(ids))
end
if left > 0 or ARGV[2] == '1' then
  return { 'purging', format('%d', left) }
end
for at = 2, RECORDS_AT - 1 do
  redis.call('UNLINK', KEYS[at])
end
redis.call('DEL', rules_key)
return { 'purged' }
