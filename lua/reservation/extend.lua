#!lua
-- uses: _read _stock _book
--[[ Move the deadline of a hold to now + hold_ms, if that is later; never beyond extendable_until.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3..]    requests               hold_ms, and operation (id and fingerprint in one), of each
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      extended | replayed, each with previous status, id and record | hold_too_long extendable_until
             hold_expired | already_confirmed | already_released | already_returned | part_of_order, likewise
             idempotency_key_reused | unknown_reservation | corrupt | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log holds). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, #KEYS)
check_types(false)

local function extend(record, hold_ms, operation)
  if record == nil then
    return 'corrupt'
  elseif not record then
    return 'unknown_reservation'
  elseif record[ORDER] ~= '' then
    return line('part_of_order', '', seen(record))
  elseif is_overdue(record) then
    expire(record)
    return line('hold_expired', 'held', record)
  elseif record[STATUS] ~= 'held' then
    return line(record[STATUS] == 'expired' and 'hold_expired' or 'already_' .. record[STATUS], '', record)
  elseif record[EXTEND_OP] == operation then
    return line('replayed', '', record)
  elseif sub(record[EXTEND_OP], 1, 22) == sub(operation, 1, 22) then
    return 'idempotency_key_reused'
  end
  local expires_at = math.max(record.expires_at, now + hold_ms)
  if expires_at > tonumber(record[UNTIL]) then
    return 'hold_too_long\n' .. record[UNTIL]
  end
  record.expires_at, record[EXPIRES_AT], record[EXTEND_OP] = expires_at, format('%d', expires_at), operation
  due_add[#due_add + 1], due_add[#due_add + 2] = record[EXPIRES_AT], record.id
  put_record(record)
  events[#events + 1] = line('extended', 'held', record)
  return events[#events]
end

local answers = {}
for at = RECORDS_AT, #KEYS do
  local n = at - RECORDS_AT
  answers[#answers + 1] = n < fit and extend(get_record(KEYS[at]), tonumber(ARGV[3 + 2 * n]), ARGV[4 + 2 * n])
    or 'deferred'
end
return close_book(answers)
