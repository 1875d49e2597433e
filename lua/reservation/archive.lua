#!lua flags=allow-oom
-- uses: _read _stock _book
--[[ Delete the records of ended reservations whose time is over; what they sold is kept in <sku>:x.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one an id
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      archived | not_due | orphaned (no record, or a corrupt one: moved from done to orphans) | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log ended). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, #KEYS)
check_types(true)

local orphans, done_remove, is_done, gone, archived = {}, {}, {}, {}, {}
local function archive(key)
  local id = sub(key, -22)
  local keep_until = redis.call('ZSCORE', done_key, id)
  if is_done[id] or not keep_until or tonumber(keep_until) > now then
    return 'not_due'
  end
  local record = get_record(key)
  is_done[id], done_remove[#done_remove + 1] = true, id
  if not record or record[STATUS] == 'held' then
    if not record then
      pinned_remove[#pinned_remove + 1] = id
    end
    orphans[#orphans + 1], orphans[#orphans + 2] = format('%d', now), id
    return 'orphaned'
  end
  for n = 1, record[STATUS] == 'confirmed' and #record.skus or 0 do
    local sku = record.skus[n]
    local sold = record.confirmed[n] - (record.returned and record.returned[n] or 0)
    archived[sku] = (archived[sku] or levels[sku].x) + sold
  end
  gone[#gone + 1] = key
  return 'archived'
end

local answers = {}
for at = RECORDS_AT, #KEYS do
  answers[#answers + 1] = at < RECORDS_AT + fit and archive(KEYS[at]) or 'deferred'
end
local done = close_book(answers)
local fields = {}
for sku, sold in pairs(archived) do
  fields[#fields + 1], fields[#fields + 2] = sku .. ':x', format('%d', sold)
  fields[#fields + 1], fields[#fields + 2] = sku .. ':r', format('%d', levels[sku].r + 1)
end
call_chunked('HSET', stock_key, fields)
call_chunked('ZREM', done_key, done_remove)
call_chunked('ZADD', orphans_key, orphans)
if #gone > 0 then
  redis.call('DEL', unpack(gone))
end
return done
