#!lua flags=allow-oom
-- uses: _read _stock _book
--[[ Take the deadline off parts of an order: from now on only the order ends them. Pinning again puts off the time when
somebody looks after the order.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3..]    orders                 the one that it is a part of; of each request
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      pinned | replayed (it is pinned, or confirmed), each with previous status, id and record
             hold_expired | already_released | already_returned | part_of_order, likewise
             unknown_reservation | corrupt | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. No event: a pinned part is still held. Cost O(lines + log holds). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, #KEYS)
check_types(false)

local function pin(record, order)
  if record == nil then
    return 'corrupt'
  elseif not record then
    return 'unknown_reservation'
  elseif record[ORDER] == '' or record[ORDER] ~= order then
    return line('part_of_order', '', seen(record))
  elseif is_overdue(record) then
    expire(record)
    return line('hold_expired', 'held', record)
  elseif is_pinned(record) then
    enter_pinned(record)
    return line('replayed', '', record)
  elseif record[STATUS] == 'confirmed' then
    return line('replayed', '', record)
  elseif record[STATUS] ~= 'held' then
    return line(record[STATUS] == 'expired' and 'hold_expired' or 'already_' .. record[STATUS], '', record)
  end
  record.expires_at, record[EXPIRES_AT] = tonumber(NEVER), NEVER
  due_add[#due_add + 1], due_add[#due_add + 2] = '+inf', record.id
  enter_pinned(record)
  put_record(record)
  return line('pinned', 'held', record)
end

local answers = {}
for at = RECORDS_AT, #KEYS do
  local n = at - RECORDS_AT
  answers[#answers + 1] = n < fit and pin(get_record(KEYS[at]), ARGV[3 + n]) or 'deferred'
end
return close_book(answers)
