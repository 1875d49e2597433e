#!lua
-- uses: _read _stock _lock _fence
--[[ Change the supply of SKUs by signed amounts, each with a reason; never an absolute set.
KEYS[1..4]   st:{sale}:rules stock events adjustments
KEYS[5..]    st:{sale}:op:<operation>  one a request
then         st:{sale}:lock:<name>  the locks that requests depend on, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3]      lock_count             locks of the call
ARGV[4..]    requests               SKU, delta, if_granted ('' = any), fingerprint, reason, reference, claim ('' or
                                    <number of its lock>:<token>:<fence>) of each
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      adjusted | replayed, each with operation, sku, a, h, s, g, limit, delta, reason, reference, at
             idempotency_key_reused | stale_fence | unknown_sku name | too_many_units | corrupt
             insufficient_available | granted_changed, each with sku, a, h, s, g, limit
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(requests). ]]
local rules_key, stock_key, events_key, adjustments_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OPERATIONS_AT, OPERATION_TTL_MS, UNITS_MAX = 5, '86400000', 1e12

local found = read('rules', 'HMGET', rules_key, 'generation', 'status')
if not found[1] or found[2] == 'deleted' then
  return { 'unknown_sale' }
elseif found[1] ~= ARGV[2] then
  return { 'stale_generation' }
end
local now = now_ms(tonumber(ARGV[1]))
local skus, known = {}, {}
for at = 4, #ARGV, 7 do
  if not known[ARGV[at]] then
    known[ARGV[at]], skus[#skus + 1] = true, ARGV[at]
  end
end
local levels = read_levels(stock_key, skus)
read('events', 'XLEN', events_key)
read('adjustments', 'XLEN', adjustments_key)

local operations, new_operations, ledger, events = {}, {}, {}, {}
local function adjust(key, sku, delta, if_granted, fingerprint, reason, reference, claim)
  if operations[key] == nil then
    operations[key] = read_text(key)
  end
  local operation = operations[key]
  local first, answer = match(operation or '', '^([^\n]+)\n(.+)$')
  if first then
    return first == fingerprint and 'replayed\n' .. answer or 'idempotency_key_reused'
  elseif operation ~= false then
    return 'corrupt'
  end
  local refusal = fence_refusal(claim, now)
  if refusal then
    return refusal
  end
  local level = levels[sku]
  if not level then
    return 'unknown_sku\n' .. sku
  elseif if_granted ~= '' and tonumber(if_granted) ~= level.g then
    return 'granted_changed\n' .. level_text(sku, level)
  elseif level.a + delta < 0 then
    return 'insufficient_available\n' .. level_text(sku, level)
  elseif levels[''].g + delta > UNITS_MAX then
    return 'too_many_units'
  end
  move(levels, sku, delta, 0, 0, delta)
  local text = adjustment_text(sub(key, -22), sku, level, delta, reason, reference, now)
  operations[key] = fingerprint .. '\n' .. text
  new_operations[key] = operations[key]
  ledger[#ledger + 1] = text
  events[#events + 1] = 'adjusted\n\n' .. text
  return 'adjusted\n' .. text
end

local answers = { 'ok', format('%d', now), '', '' }
for key_at = OPERATIONS_AT, LAST_AT do
  local at = 4 + (key_at - OPERATIONS_AT) * 7
  answers[#answers + 1] = adjust(KEYS[key_at], ARGV[at], tonumber(ARGV[at + 1]), unpack(ARGV, at + 2, at + 6))
end
local changed = changed_levels(levels, events)
-- Phase 2.
call_chunked('HSET', stock_key, changed)
for key, text in pairs(new_operations) do
  redis.call('SET', key, text, 'PX', OPERATION_TTL_MS)
end
for n = 1, #ledger do
  redis.call('XADD', adjustments_key, '*', 'e', ledger[n])
end
write_events(events_key, now, events)
return answers
