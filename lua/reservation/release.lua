#!lua flags=allow-oom
-- uses: _read _stock _book _lock _fence
--[[ Give held units back before their deadline.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request
then         st:{sale}:lock:<name>  the locks that requests depend on, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      lock_count             locks of the call
ARGV[4..]    requests               order ('' = it is a part of none), claim ('' or
                                    <number of its lock>:<token>:<fence>) of each
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      released | expired (it was overdue, or had expired) | replayed, each with previous status, id and record
             already_confirmed | already_returned | part_of_order, likewise
             stale_fence | unknown_reservation | corrupt | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log holds). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, LAST_AT)
check_types(false)

local function release(record, order, claim)
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
    return fence_refusal(claim, now) or end_hold(record, 'released', zeros(#record.skus))
  elseif status == 'released' then
    return line('replayed', '', record)
  elseif status == 'expired' then
    return line('expired', '', record)
  end
  return line('already_' .. status, '', record)
end

local answers = {}
for at = RECORDS_AT, LAST_AT do
  local n = at - RECORDS_AT
  answers[#answers + 1] = n < fit and release(get_record(KEYS[at]), ARGV[4 + 2 * n], ARGV[5 + 2 * n]) or 'deferred'
end
return close_book(answers)
