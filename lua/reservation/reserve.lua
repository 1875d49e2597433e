#!lua
-- uses: _read _stock _book
--[[ Hold the units of up to 128 carts until their deadlines: each cart all of its lines, or none.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request; with `replaces` the old hold's key follows
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      sku_count              distinct SKUs of the call
ARGV[4]      buyer_count            distinct buyers of the call
ARGV[5..]    skus                   their names
then         buyers                 bucket (0..15) and buyer of each
then         requests               hold_ms ('' = the sale's), buyer (index, 0 = none), replaces ('' or the old id),
                                    tail (the record from its fingerprint on), line count, then SKU (index) and
                                    quantity of each line
Returns      {"ok", now, retry_at, overdue ids, answer...} | {"unknown_sale"} | {"stale_generation"}
             retry_at and overdue are filled when a request fell short: the earliest deadline, and up to 100 ids
Answers      held | replayed, each with previous status, id and record | idempotency_key_reused
             hold_expired | already_released | already_returned, likewise with the record, when a key's hold has ended
             sale_closed | sale_paused | sale_not_open opens_at | hold_too_long extendable_until
             unknown_reservation | part_of_order | already_confirmed (replaces; with the old record)
             unknown_sku name | buyer_required | buyer_holds limit held | buyer_limit sku limit counted requested
             sold_out sku=requested,available,held;... | corrupt
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(carts + lines + log holds). ]]
local sku_count, buyer_count = tonumber(ARGV[3]), tonumber(ARGV[4])

local word = open_book()
if word then
  return { word }
end

local skus, known = {}, {}
for n = 1, sku_count do
  skus[n] = ARGV[4 + n]
  known[skus[n]] = true
end
local buyers_at = 4 + sku_count -- ARGV[buyers_at + 2n - 1] is the n-th buyer's bucket
local requests_at = buyers_at + 2 * buyer_count + 1
local wanted = {}
for n = 1, 2 * buyer_count, 2 do
  wanted[n], wanted[n + 1] = tonumber(ARGV[buyers_at + n]), ARGV[buyers_at + n + 1]
end

-- One EXISTS says that no record of the call is there yet, which is so for nearly every batch.
local exists = 0
for first = RECORDS_AT, #KEYS, 3000 do
  exists = exists + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 2999, #KEYS)))
end
local fresh = exists == 0 -- then a key not in `records` has no record
if not fresh then
  for at = RECORDS_AT, #KEYS do
    local record = get_record(KEYS[at])
    for n = 1, record and #record.skus or 0 do
      local sku = record.skus[n]
      if not known[sku] then
        known[sku], skus[#skus + 1] = true, sku
      end
    end
  end
end
levels = read_levels(stock_key, skus)
read_buyers(wanted)
check_types(false)

local status = rules.status
if status ~= 'closed' and rules.closes_at and now >= rules.closes_at then
  status = 'closed'
elseif status == 'active' and rules.opens_at and now < rules.opens_at then
  status = 'scheduled'
end
local window_refusal
if status == 'closed' or status == 'paused' then
  window_refusal = 'sale_' .. status
elseif status == 'scheduled' then
  window_refusal = format('sale_not_open\n%d', rules.opens_at)
end

local fell_short = false
local now_text = format('%d', now)

local function find_record(key)
  if records[key] == nil then
    if new_records[key] then
      records[key] = { parsed = parse_record(key, new_records[key]) }
    elseif fresh then
      return false
    end
  end
  return get_record(key)
end

-- The answer about a key whose reservation exists.
local function repeated(record, tail)
  if record[FINGERPRINT] ~= match(tail, '^[^\n]*') then
    return 'idempotency_key_reused'
  end
  local view = seen(record)
  local answer = { held = 'replayed', confirmed = 'replayed', released = 'already_released',
    returned = 'already_returned', expired = 'hold_expired' }
  return line(answer[view[STATUS]], '', view)
end

-- What `replaces` meets: the hold to replace, nil for a plain reserve, or a refusal.
local function meet_replaced(key, buyer)
  local old = find_record(key)
  if old == nil then
    return nil, 'corrupt'
  end
  if not old or old[BUYER] ~= buyer then
    return nil, 'unknown_reservation'
  end
  if old[ORDER] ~= '' then
    return nil, line('part_of_order', '', seen(old))
  end
  if old[STATUS] == 'expired' or is_overdue(old) then
    return nil
  end
  if old[STATUS] ~= 'held' then
    return nil, line('already_' .. old[STATUS], '', old)
  end
  return old
end

-- Puts the old lines back into the tables (sign 1), or takes them again when the new ones are refused (-1).
local function swap_old(old, sign)
  local entry = buyer_of(old)
  local _, flags, limited = match(old[COUNTED], '^(%x?)([HU]*)([%d,]*)$')
  for n = 1, #old.skus do
    local units = old.quantity[n] * sign
    move(levels, old.skus[n], units, -units, 0, 0)
    if entry and find(flags, 'U') then
      entry.units = entry.units - units
    end
  end
  if entry and find(flags, 'H') then
    entry.holds = entry.holds - sign
  end
  for n in string.gmatch(entry and limited or '', '%d+') do
    n = tonumber(n)
    entry.skus[old.skus[n]] = entry.skus[old.skus[n]] - old.quantity[n] * sign
  end
end

-- The refusal of a cart, or nil: unknown SKU, limits, stock; the first that holds.
local function refusal_of(cart, quantities, entry)
  local limited = rules.buyer_limit or rules.buyer_holds_max
  for n = 1, #cart do
    local level = levels[cart[n]]
    if not level then
      return 'unknown_sku\n' .. cart[n]
    end
    limited = limited or level.l
  end
  if limited and not entry then
    return 'buyer_required'
  end
  local refusal
  if rules.buyer_holds_max and entry.holds >= rules.buyer_holds_max then
    refusal = format('buyer_holds\n%d\n%d', rules.buyer_holds_max, entry.holds)
  end
  refusal = refusal or limited and limit_of(entry, cart, quantities)
  if not refusal then
    local short = shortfalls_of(cart, quantities)
    refusal = short ~= '' and 'sold_out\n' .. short or nil
  end
  fell_short = fell_short or refusal ~= nil
  return refusal
end

local function reserve(key, old_key, hold_ms, buyer_index, tail, cart, quantities)
  local record = find_record(key)
  if record then
    return repeated(record, tail)
  elseif record == nil then
    return 'corrupt'
  end
  if window_refusal then
    return window_refusal
  end
  local hold = hold_ms ~= '' and tonumber(hold_ms) or rules.hold_ms
  if hold > rules.hold_ms_max then
    return format('hold_too_long\n%d', now + rules.hold_ms_max)
  end
  local entry
  if buyer_index > 0 then
    local at = buyers_at + 2 * buyer_index
    entry = buyers[ARGV[at - 1] .. ':' .. ARGV[at]]
  end
  local expires_at, extendable_until, replaces = now + hold, now + rules.hold_ms_max, ''
  local old, refusal
  if old_key then
    old, refusal = meet_replaced(old_key, entry and entry.buyer or '')
    if refusal then
      return refusal
    end
    if old then
      extendable_until, replaces = tonumber(old[UNTIL]), old.id
      expires_at = hold_ms ~= '' and expires_at or old.expires_at
      if expires_at > extendable_until then
        return format('hold_too_long\n%d', extendable_until)
      end
      swap_old(old, 1)
    end
  end
  refusal = refusal_of(cart, quantities, entry)
  if refusal then
    if old then
      swap_old(old, -1)
    end
    return refusal
  end
  local id = sub(key, -22)
  if old then
    if buyer_of(old) then
      dirty_buyers[buyer_of(old)] = true
    end
    old[COUNTED], old[REPLACED_BY] = sub(old[COUNTED], 1, 1), id
    due_add[old.id], due_remove[old.id] = nil, true
    enter_status(old, 'released', 'released', 'held')
  end
  for n = 1, #cart do
    move(levels, cart[n], -quantities[n], quantities[n], 0, 0)
  end
  local counted = count_take(entry, cart, quantities, true)
  local expires_text = format('%d', expires_at)
  local fields = 'held\n' .. expires_text .. '\n' .. now_text .. '\n\n' .. format('%d', extendable_until) .. '\n' .. counted
    .. '\n' .. replaces .. '\n\n\n\n\n\n' .. tail
  new_records[key], records[key] = fields, nil
  due_add[id] = expires_text
  local text = 'held\n\n' .. id .. '\n' .. fields
  events[#events + 1] = text
  return text
end

local answers = {}
local at, key_at = requests_at, RECORDS_AT
while at <= #ARGV do
  local replaces, lines = ARGV[at + 2], tonumber(ARGV[at + 4])
  local cart, quantities = {}, {}
  for n = 1, lines do
    cart[n] = ARGV[4 + tonumber(ARGV[at + 3 + 2 * n])]
    quantities[n] = tonumber(ARGV[at + 4 + 2 * n])
  end
  local old_key = replaces ~= '' and KEYS[key_at + 1] or nil
  answers[#answers + 1] =
    reserve(KEYS[key_at], old_key, ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 3], cart, quantities)
  at, key_at = at + 5 + 2 * lines, key_at + (old_key and 2 or 1)
end
return close_book(answers, fell_short)
