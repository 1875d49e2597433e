#!lua flags=allow-oom
-- uses: _read _stock _book _lock _fence
--[[ Sell held units; of a partial confirm the remainder is given back. An expired hold is refused, or retaken.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request
then         st:{sale}:lock:<name>  the locks that requests depend on, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      lock_count             locks of the call
ARGV[4..]    requests               "refuse" or "retake", reference ('' = as it is), lines ('' = all, or
                                    sku=quantity,... sorted by SKU), order ('' = it is a part of none), claim ('' or
                                    <number of its lock>:<token>:<fence>) of each
Returns      {"ok", now, retry_at, overdue ids, answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      confirmed | retaken | replayed, each with previous status, id and record
             confirm_expired possible(1, 0) shortfalls, then previous status, id and record
             retake_sold_out shortfalls, then likewise | buyer_limit sku limit counted requested
             stale_fence (of a retake likewise)
             already_confirmed | already_released | already_returned | part_of_order, likewise
             quantity_exceeds_reservation, likewise | unknown_reservation | corrupt | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log holds). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, LAST_AT)
check_types(false)
local fell_short = false

-- What was confirmed, in the form in which a request names lines.
local function confirmed_lines(record)
  local lines = {}
  for n = 1, #record.skus do
    if record.confirmed[n] > 0 then
      lines[#lines + 1] = record.skus[n] .. '=' .. format('%d', record.confirmed[n])
    end
  end
  return concat(lines, ',')
end

local function confirm_expired(record, previous, if_expired, reference, kept, refusal)
  local entry = buyer_of(record)
  local shortfalls = shortfalls_of(record.skus, kept)
  local limit = entry and limit_of(entry, record.skus, kept)
  if if_expired == 'refuse' then
    local possible = shortfalls == '' and not limit and '1' or '0'
    return line('confirm_expired\n' .. possible .. '\n' .. shortfalls, previous, record)
  elseif refusal then
    return line(refusal, previous, record)
  elseif limit then
    fell_short = true
    return limit
  elseif shortfalls ~= '' then
    fell_short = true
    return line('retake_sold_out\n' .. shortfalls, previous, record)
  end
  for n = 1, #kept do
    move(levels, record.skus[n], -kept[n], 0, kept[n], 0)
  end
  record[COUNTED] = count_take(entry, record.skus, kept, false)
  record.confirmed, record[CONFIRMED], record[RETAKEN] = kept, concat(kept, ','), '1'
  record[REFERENCE] = reference ~= '' and reference or record[REFERENCE]
  return enter_status(record, 'confirmed', 'retaken', 'expired')
end

local function confirm(record, if_expired, reference, lines, order, claim)
  if record == nil then
    return 'corrupt'
  elseif not record then
    return 'unknown_reservation'
  end
  local status = record[STATUS]
  if record[ORDER] ~= order then
    return line('part_of_order', '', seen(record))
  elseif status == 'confirmed' then
    local same = lines == '' or lines == confirmed_lines(record)
    return line(same and 'replayed' or 'already_confirmed', '', record)
  elseif status == 'released' or status == 'returned' then
    return line('already_' .. status, '', record)
  end
  local kept = asked(record, lines, record.quantity)
  if not kept then
    return line('quantity_exceeds_reservation', '', seen(record))
  end
  local refusal = fence_refusal(claim, now)
  if status == 'expired' then
    return confirm_expired(record, '', if_expired, reference, kept, refusal)
  elseif is_overdue(record) then
    expire(record)
    return confirm_expired(record, 'held', if_expired, reference, kept, refusal)
  elseif refusal then
    return refusal
  end
  record[REFERENCE] = reference ~= '' and reference or record[REFERENCE]
  return end_hold(record, 'confirmed', kept)
end

local answers = {}
for at = RECORDS_AT, LAST_AT do
  local n = at - RECORDS_AT
  local first = 4 + 5 * n
  answers[#answers + 1] = n < fit and confirm(get_record(KEYS[at]), unpack(ARGV, first, first + 4)) or 'deferred'
end
return close_book(answers, fell_short)
