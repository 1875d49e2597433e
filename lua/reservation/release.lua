#!lua flags=allow-oom
-- uses: _read _stock _book
--[[ Give held units back before their deadline.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3..]    orders                 '' = it is a part of none; of each request
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      released | expired (it was overdue, or had expired) | replayed, each with previous status, id and record
             already_confirmed | already_returned | part_of_order, likewise | unknown_reservation | corrupt | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log holds). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, #KEYS)
check_types(false)

local function release(record, order)
  if record == nil then
    return 'corrupt'
  elseif not record then
    return 'unknown_reservation'
  end
  local status = record[STATUS]
  if record[ORDER] ~= order then
    return line('part_of_order', '', seen(record))
  elseif is_overdue(record) then
    expire(record)
    return line('expired', 'held', record)
  elseif status == 'held' then
    return end_hold(record, 'released', zeros(#record.skus))
  elseif status == 'released' then
    return line('replayed', '', record)
  elseif status == 'expired' then
    return line('expired', '', record)
  end
  return line('already_' .. status, '', record)
end

local answers = {}
for at = RECORDS_AT, #KEYS do
  local n = at - RECORDS_AT
  answers[#answers + 1] = n < fit and release(get_record(KEYS[at]), ARGV[3 + n]) or 'deferred'
end
return close_book(answers)
