#!lua
-- uses: _read _stock _book _lock _fence
--[[ Hold the units of up to 128 carts until their deadlines: each cart all of its lines, or none.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request; with `replaces` the old hold's key follows
then         st:{sale}:lock:<name>  the locks that requests depend on, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      lock_count             locks of the call
ARGV[4]      sku_count              distinct SKUs of the call
ARGV[5]      buyer_count            distinct buyers of the call
ARGV[6..]    skus                   their names
then         buyers                 bucket (0..15) and buyer of each
then         requests               hold_ms ('' = the sale's), buyer, more, tail (the record from its fingerprint on),
                                    line count, then SKU and quantity of each line. More is '', or + if an old hold's
                                    key follows, * if the window does not matter, else -; then the claim: '' or
                                    <number of its lock>:<token>:<fence>
Returns      {"ok", now, retry_at, overdue ids, answer...} | {"unknown_sale"} | {"stale_generation"}
             retry_at and overdue are filled when a request fell short: the earliest deadline, and up to 100 ids
Answers      held | replayed, each with previous status, id and record | idempotency_key_reused
             hold_expired | already_released | already_returned, likewise with the record, when a key's hold has ended
             sale_closed | sale_paused | sale_not_open opens_at | stale_fence | hold_too_long extendable_until
             unknown_reservation | part_of_order | already_confirmed (replaces; with the old record)
             unknown_sku name | buyer_required | buyer_holds limit held | buyer_limit sku limit counted requested
             sold_out sku=requested,available,held;... | corrupt
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(carts + lines + log holds). ]]
local sku_count, buyer_count = tonumber(ARGV[4]), tonumber(ARGV[5])

local word = open_book()
if word then
  return { word }
end

-- Numbers of requests are few and alike: each text is read once.
local number = setmetatable({}, { __index = function(known, text)
  known[text] = tonumber(text)
  return known[text]
end })

local skus, known = {}, {}
for n = 1, sku_count do
  skus[n] = ARGV[5 + n]
  known[skus[n]] = true
end
local requests_at = 6 + sku_count + 2 * buyer_count
local wanted = {}
for n = 6 + sku_count, requests_at - 1, 2 do
  wanted[#wanted + 1], wanted[#wanted + 2] = number[ARGV[n]], ARGV[n + 1]
end

-- One EXISTS says that no record of the call is there yet, which is so for nearly every batch.
local exists = 0
for first = RECORDS_AT, LAST_AT, 3000 do
  exists = exists + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 2999, LAST_AT)))
end
local fresh = exists == 0 -- then a key not in `records` has no record
if not fresh then
  for at = RECORDS_AT, LAST_AT do
    local record = get_record(KEYS[at])
    for n = 1, record and #record.skus or 0 do
      local sku = record.skus[n]
      if not known[sku] then
        known[sku], skus[#skus + 1] = true, sku
      end
    end
  end
end
read_stock(skus)
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
    if new_at[key] then
      records[key] = { parsed = parse_record(key, new_records[new_at[key]]) }
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
  local is_negative = entry and (entry.holds < 0 or entry.units < 0)
  for n in gmatch(entry and limited or '', '%d+') do
    n = tonumber(n)
    count_sku(entry, old.skus[n], -old.quantity[n] * sign)
    is_negative = is_negative or counted_of(entry, old.skus[n]) < 0
  end
  if is_negative then
    corrupt('buyers') -- now: what is taken next would hide it
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

local heads = {} -- deadlines of a hold, as texts, by how long it lasts

local function reserve(key, old_key, is_paid, claim, hold_ms, buyer, tail, cart, quantities)
  local record = find_record(key)
  if record then
    return repeated(record, tail)
  elseif record == nil then
    return 'corrupt'
  end
  if window_refusal and not is_paid then
    return window_refusal
  end
  local refusal = claim and fence_refusal(claim, now)
  if refusal then
    return refusal
  end
  local hold = hold_ms ~= '' and number[hold_ms] or rules.hold_ms
  if hold > rules.hold_ms_max then
    return format('hold_too_long\n%d', now + rules.hold_ms_max)
  end
  local entry = buyers[buyer]
  local expires_at, extendable_until, replaces = now + hold, now + rules.hold_ms_max, ''
  local old
  if old_key then
    old, refusal = meet_replaced(old_key, buyer)
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
    if entry then
      dirty_buyers[entry] = true
    end
    old[COUNTED], old[REPLACED_BY] = sub(old[COUNTED], 1, 1), id
    due_remove[#due_remove + 1] = old.id
    enter_status(old, 'released', 'released', 'held')
  end
  for n = 1, #cart do
    move(levels, cart[n], -quantities[n], quantities[n], 0, 0)
  end
  local counted = count_take(entry, cart, quantities, true)
  -- A crowd's holds last alike: the deadlines are written once.
  local times = not old and heads[hold]
  if not times then
    times = { format('%d', expires_at), format('\n%s\n\n%d\n', now_text, extendable_until) }
    if not old then
      heads[hold] = times
    end
  end
  local fields = 'held\n' .. times[1] .. times[2] .. counted .. '\n' .. replaces .. '\n\n\n\n\n\n' .. tail
  local place = #new_records
  new_records[place + 1], new_records[place + 2], new_at[key], records[key] = key, fields, place + 2, nil
  place = #due_add
  due_add[place + 1], due_add[place + 2] = times[1], id
  local text = 'held\n\n' .. id .. '\n' .. fields
  events[#events + 1] = text
  return text
end

local answers = {}
local at, key_at = requests_at, RECORDS_AT
local cart, quantities = {}, {}
while at <= #ARGV do
  local more, lines = ARGV[at + 2], number[ARGV[at + 4]]
  for n = 1, lines do
    cart[n], quantities[n] = skus[number[ARGV[at + 3 + 2 * n]]], number[ARGV[at + 4 + 2 * n]]
  end
  for n = #cart, lines + 1, -1 do
    cart[n], quantities[n] = nil, nil
  end
  local old_key, is_paid, claim
  if more ~= '' then
    local sign = sub(more, 1, 1)
    old_key, is_paid, claim = sign == '+' and KEYS[key_at + 1] or nil, sign == '*', sub(more, 2)
  end
  answers[#answers + 1] =
    reserve(KEYS[key_at], old_key, is_paid, claim, ARGV[at], ARGV[at + 1], ARGV[at + 3], cart, quantities)
  at, key_at = at + 5 + 2 * lines, key_at + (old_key and 2 or 1)
end
return close_book(answers, fell_short)
