#!lua flags=allow-oom
-- uses: _read _stock _book
--[[ Give confirmed units back: all that is left, or some lines. Without restock they leave the supply.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id> and st:{sale}:op:<operation> of each request in turn
KEYS[last]   st:{sale}:adjustments  the ledger of supply
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3..]    requests               lines ('' = all that is left, or sku=quantity,... sorted by SKU),
                                    restock (1, 0), fingerprint of each
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      returned | replayed, each with previous status, id and record
             not_confirmed | quantity_exceeds_reservation, likewise
             idempotency_key_reused | unknown_reservation | corrupt | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log ended). ]]
local OPERATION_TTL_MS = '86400000'
local word = open_book()
if word then
  return { word }
end
local adjustments_key = KEYS[#KEYS]
local fit = read_records(2, #KEYS - 2)
check_types(false)
read('adjustments', 'XLEN', adjustments_key)

-- Operation records: `fingerprint LF answer`; those of this call are written at its end.
local operations, new_operations, ledger = {}, {}, {}
local function get_operation(key)
  if operations[key] == nil then
    operations[key] = read_text(key)
  end
  return operations[key]
end

local function return_reservation(record, operation_key, lines, restock, fingerprint)
  if record == nil then
    return 'corrupt'
  elseif not record then
    return 'unknown_reservation'
  end
  if lines ~= '' then
    local operation = get_operation(operation_key)
    local first, answer = match(operation or '', '^([^\n]+)\n(.+)$')
    if first then
      return first == fingerprint and 'replayed\n' .. answer or 'idempotency_key_reused'
    elseif operation ~= false then
      return 'corrupt'
    end
  end
  if is_overdue(record) then
    expire(record)
    return line('not_confirmed', 'held', record)
  elseif record[STATUS] == 'returned' and lines == '' then
    return line('replayed', '', record)
  elseif record[STATUS] ~= 'confirmed' and record[STATUS] ~= 'returned' then
    return line('not_confirmed', '', record)
  end
  local returned, left = record.returned or zeros(#record.skus), {}
  for n = 1, #record.skus do
    left[n] = record.confirmed[n] - returned[n]
  end
  local units = asked(record, lines, left)
  if not units then
    return line('quantity_exceeds_reservation', '', record)
  end
  local rest, operation = 0, sub(operation_key, -22)
  for n = 1, #units do
    local sku, count = record.skus[n], units[n]
    if restock then
      move(levels, sku, count, 0, -count, 0)
    elseif count > 0 then
      move(levels, sku, 0, 0, -count, -count)
      ledger[#ledger + 1] = adjustment_text(operation, sku, levels[sku], -count, 'damaged', record[REFERENCE], now)
      events[#events + 1] = 'adjusted\n\n' .. ledger[#ledger]
    end
    returned[n] = returned[n] + count
    rest = rest + record.confirmed[n] - returned[n]
  end
  uncount(record, units, false)
  record.returned, record[RETURNED] = returned, concat(returned, ',')
  local answer = enter_status(record, rest == 0 and 'returned' or 'confirmed', 'returned', 'confirmed')
  if lines ~= '' then
    operations[operation_key] = fingerprint .. match(answer, '^%l+(\n.*)$')
    new_operations[operation_key] = operations[operation_key]
  end
  return answer
end

local answers = {}
for at = RECORDS_AT, #KEYS - 2, 2 do
  local n = (at - RECORDS_AT) / 2
  answers[#answers + 1] = n < fit
    and return_reservation(get_record(KEYS[at]), KEYS[at + 1], ARGV[3 + 3 * n], ARGV[4 + 3 * n] == '1', ARGV[5 + 3 * n])
    or 'deferred'
end
local done = close_book(answers)
for key, text in pairs(new_operations) do
  redis.call('SET', key, text, 'PX', OPERATION_TTL_MS)
end
for n = 1, #ledger do
  redis.call('XADD', adjustments_key, '*', 'e', ledger[n])
end
return done
