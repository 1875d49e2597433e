#!lua
-- uses: _read _stock _book _lock _fence
--[[ Hold the units of up to 256 carts until their deadlines: each cart all of its lines, or none.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one a request; with `replaces` the old hold's key follows
then         st:{sale}:lock:<name>  the locks that requests depend on, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      lock_count             locks of the call
ARGV[4]      cart_count             distinct carts of the call
ARGV[5..]    carts                  hold_ms ('' = the sale's) LF more LF <sku>=<quantity>,... More is '', or + if an
                                    old hold's key follows, * if the window does not matter, else -; then the claim:
                                    '' or <number of its lock>:<token>:<fence>
then         requests               number of its cart, bucket (0..15) and name of its buyer ('' and '' for none),
                                    tail (the record from its fingerprint on)
Returns      {"ok", now, retry_at, overdue ids, answer...} | {"unknown_sale"} | {"stale_generation"}
             retry_at and overdue are filled when a request fell short: the earliest deadline, and up to 100 ids
Answers      new with the record up to its tail: a hold that is made now; id and tail are the caller's
             | replayed with previous status, id and record | idempotency_key_reused
             hold_expired | already_released | already_returned, likewise with the record, when a key's hold has ended
             sale_closed | sale_paused | sale_not_open opens_at | stale_fence | hold_too_long extendable_until
             unknown_reservation | part_of_order | already_confirmed (replaces; with the old record)
             unknown_sku name | buyer_required | buyer_holds limit held | buyer_limit sku limit counted requested
             sold_out sku=requested,available,held;... | corrupt
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(carts + lines + log holds). ]]
local CARTS_AT, CART_COUNT = 5, tonumber(ARGV[4])
local REQUESTS_AT, REQUEST_ARGS = CARTS_AT + CART_COUNT, 4

local word = open_book()
if word then
  return { word }
end

-- A crowd's carts are alike, so each is read once, and requests name it by its number: as text, since so it comes.
local carts, skus, known = {}, {}, {}
for n = 1, CART_COUNT do
  local hold_ms, more, lines = match(ARGV[CARTS_AT + n - 1], '^(%d*)\n([^\n]*)\n(.+)$')
  local sign, cart = sub(more, 1, 1), {}
  cart.skus, cart.quantities = parse_amounts(lines)
  cart.hold = tonumber(hold_ms)
  cart.is_replacing, cart.is_paid, cart.claim = sign == '+', sign == '*', sub(more, 2)
  carts[format('%d', n)] = cart
  for _, sku in ipairs(cart.skus) do
    if not known[sku] then
      known[sku], skus[#skus + 1] = true, sku
    end
  end
end
local wanted = {}
for at = REQUESTS_AT, #ARGV, REQUEST_ARGS do
  local bucket = ARGV[at + 1]
  if bucket ~= '' then
    want_buyer(wanted, tonumber(bucket), ARGV[at + 2])
  end
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
  if fresh and not records[key] and not new_at[key] then
    return false
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

-- What new holds of this call have in common, by how long they last and what is counted: a crowd's are alike.
local heads = {}
local function head_of(expires_at, extendable_until, counted, replaces)
  local record = format('held\n%d\n%s\n\n%d\n%s\n%s\n\n\n\n\n\n', expires_at, now_text, extendable_until, counted,
    replaces)
  return { expires_at = format('%d', expires_at), record = record, answer = 'new\n' .. record }
end

local function common_head(hold, counted)
  local of_hold = heads[hold]
  if not of_hold then
    of_hold = {}
    heads[hold] = of_hold
  end
  local head = of_hold[counted]
  if not head then
    head = head_of(now + hold, now + rules.hold_ms_max, counted, '')
    of_hold[counted] = head
  end
  return head
end

local function reserve(key, old_key, cart, buyer, tail)
  local record = find_record(key)
  if record then
    return repeated(record, tail)
  elseif record == nil then
    return 'corrupt'
  end
  if window_refusal and not cart.is_paid then
    return window_refusal
  end
  local refusal = cart.claim ~= '' and fence_refusal(cart.claim, now)
  if refusal then
    return refusal
  end
  local hold = cart.hold or rules.hold_ms
  if hold > rules.hold_ms_max then
    return format('hold_too_long\n%d', now + rules.hold_ms_max)
  end
  local entry = buyers[buyer]
  local old, expires_at, extendable_until
  if old_key then
    old, refusal = meet_replaced(old_key, buyer)
    if refusal then
      return refusal
    end
    if old then
      extendable_until = tonumber(old[UNTIL])
      expires_at = cart.hold and now + hold or old.expires_at
      if expires_at > extendable_until then
        return format('hold_too_long\n%d', extendable_until)
      end
      swap_old(old, 1)
    end
  end
  refusal = refusal_of(cart.skus, cart.quantities, entry)
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
  for n = 1, #cart.skus do
    move(levels, cart.skus[n], -cart.quantities[n], cart.quantities[n], 0, 0)
  end
  local counted = count_take(entry, cart.skus, cart.quantities, true)
  local head = old and head_of(expires_at, extendable_until, counted, old.id) or common_head(hold, counted)
  add_record(key, id, head.record, tail)
  local place = #due_add
  due_add[place + 1], due_add[place + 2] = head.expires_at, id
  return head.answer
end

local answers, key_at = {}, RECORDS_AT
for at = REQUESTS_AT, #ARGV, REQUEST_ARGS do
  local cart = carts[ARGV[at]]
  local old_key = cart.is_replacing and KEYS[key_at + 1] or nil
  answers[#answers + 1] = reserve(KEYS[key_at], old_key, cart, ARGV[at + 2], ARGV[at + 3])
  key_at = key_at + (old_key and 2 or 1)
end
return close_book(answers, fell_short)
