#!lua
-- uses: _read _stock _rules
--[[ Make a sale, replace its rules, or add SKUs and set their limits. The only writer of rules.
KEYS[1..5]   st:{sale}:rules stock skus events adjustments
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      new generation         used if there is no sale yet; '' = the caller knows of one, and makes none
ARGV[3]      new id_key             likewise
ARGV[4]      expect                 '' anything | "absent" | <generation>-<version>
ARGV[5]      operation              id:fingerprint
ARGV[6]      "rules" or "skus"      whether the rules are replaced
ARGV[7..14]  opens_at_ms closes_at_ms hold_ms hold_ms_max buyer_limit buyer_holds_max confirmed_retention_ms
             ended_retention_ms; '' = none (all '' with "skus")
ARGV[15..]   SKUs                   name, initial ('' = not said), buyer limit ('' = none) of each
Returns      {"created" | "changed" | "unchanged" | "replayed_created" | "replayed_changed", now, sale text}
             | {"unknown_sale"} | {"sale_deleting"} | {"precondition_failed"} | {"idempotency_key_reused"}
             | {"stock_exists", sku, initial} | {"initial_required"} | {"too_many_skus"} | {"too_many_units"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(SKUs of the call). ]]
local rules_key, stock_key, skus_key, events_key, adjustments_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local SKUS_MAX, UNITS_MAX, SKUS_AT = 10000, 1e12, 15
local expect, operation, with_rules = ARGV[4], ARGV[5], ARGV[6] == 'rules'
local operation_id = match(operation, '^[^:]*')

local now = now_ms(tonumber(ARGV[1]))
local rules = read_rules(rules_key)
local sku_count = read('skus', 'ZCARD', skus_key)
read('events', 'XLEN', events_key)
read('adjustments', 'XLEN', adjustments_key)
local skus = {}
for at = SKUS_AT, #ARGV, 3 do
  skus[#skus + 1] = ARGV[at]
end
local levels = read_levels(stock_key, skus)
local totals = levels['']

if rules and rules.status == 'deleted' then
  return { 'sale_deleting' }
elseif not rules and (not with_rules or ARGV[2] == '') then
  return { 'unknown_sale' }
end
if rules then
  local last, word = match(rules.last_op, '^(.*) (%l+)$')
  if last == operation then
    return { 'replayed_' .. word, format('%d', now), sale_text(rules, sku_count, totals) }
  elseif last and match(last, '^[^:]*') == operation_id then
    return { 'idempotency_key_reused' }
  end
end
if expect == 'absent' and rules then
  return { 'precondition_failed' }
elseif expect ~= '' and expect ~= 'absent' then
  if not rules or expect ~= rules.generation .. '-' .. format('%d', rules.version) then
    return { 'precondition_failed' }
  end
end

local word = rules and 'unchanged' or 'created'
rules = rules or { generation = ARGV[2], version = 0, status = 'active' }
if with_rules then
  for n = 1, #RULES do
    if word == 'unchanged' and rules[RULES[n]] ~= ARGV[6 + n] then
      word = 'changed'
    end
    rules[RULES[n]] = ARGV[6 + n]
  end
end

local stock_values, limits_gone, new_skus, ledger, events = {}, {}, {}, {}, {}
local function set(field, value)
  stock_values[#stock_values + 1], stock_values[#stock_values + 2] = field, value
end
for at = SKUS_AT, #ARGV, 3 do
  local sku, initial, limit = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local level = levels[sku]
  if not level then
    if initial == '' then
      return { 'initial_required' }
    end
    local units = tonumber(initial)
    level = { a = units, h = 0, s = 0, g = units }
    totals.a, totals.g, sku_count = totals.a + units, totals.g + units, sku_count + 1
    new_skus[#new_skus + 1], new_skus[#new_skus + 2] = 0, sku
    set(sku .. ':a', initial)
    set(sku .. ':h', 0)
    set(sku .. ':s', 0)
    set(sku .. ':g', initial)
    set(sku .. ':i', initial)
    set(sku .. ':r', 0)
    level.l = tonumber(limit)
    ledger[#ledger + 1] = adjustment_text(operation_id, sku, level, units, 'initial', '', now)
    events[#events + 1] = 'adjusted\n\n' .. ledger[#ledger]
  elseif initial ~= '' and tonumber(initial) ~= level.i then
    return { 'stock_exists', sku, format('%d', level.i) }
  end
  if limit ~= (levels[sku] and levels[sku].l and format('%d', levels[sku].l) or '') then
    if limit == '' then
      limits_gone[#limits_gone + 1] = sku .. ':l'
    else
      set(sku .. ':l', limit)
    end
    word = word == 'unchanged' and 'changed' or word
  end
end
if sku_count > SKUS_MAX then
  return { 'too_many_skus' }
elseif totals.g > UNITS_MAX then
  return { 'too_many_units' }
end
if #new_skus > 0 and word == 'unchanged' then
  word = 'changed'
end
if word == 'unchanged' then
  return { word, format('%d', now), sale_text(rules, sku_count, totals) }
end

rules.version = rules.version + 1
if word == 'created' or #new_skus > 0 then
  set(':a', format('%d', totals.a))
  set(':h', format('%d', totals.h))
  set(':s', format('%d', totals.s))
  set(':g', format('%d', totals.g))
end
local text = sale_text(rules, sku_count, totals)
table.insert(events, 1, word .. '\n\n' .. text)
local fields = { 'version', format('%d', rules.version), 'generation', rules.generation, 'status', rules.status,
  'last_op', operation .. ' ' .. word }
for n = 1, #RULES do
  fields[#fields + 1], fields[#fields + 2] = RULES[n], rules[RULES[n]]
end
if word == 'created' then
  fields[#fields + 1], fields[#fields + 2] = 'id_key', ARGV[3]
end
-- Phase 2.
call_chunked('HSET', rules_key, fields)
call_chunked('HSET', stock_key, stock_values)
call_chunked('HDEL', stock_key, limits_gone)
call_chunked('ZADD', skus_key, new_skus)
for n = 1, #ledger do
  redis.call('XADD', adjustments_key, '*', 'e', ledger[n])
end
write_events(events_key, now, events)
-- With "skus" the caller asked for the SKU: that is what was made.
word = not with_rules and #new_skus > 0 and 'created' or word
return { word, format('%d', now), text }
