#!lua flags=allow-oom
-- uses: _read _stock
--[[ Set levels to what records and ledger say, if they still are what the audit has read; then the totals of the sale.
KEYS[1..3]   st:{sale}:rules stock skus
KEYS[4..7]   st:{sale}:due pinned events adjustments
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
ARGV[3..]    SKUs                   name, operation, revision, counters as they were read (a,h,s,g,x), held and sold of
                                    the records, granted of the ledger, "1" if the ledger adds up, of each
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      repaired | written_off, each with sku, a, h, s, g, limit, delta of the ledger
             moved (it is another one by now) | oversold units (more are held and sold than were granted)
             totals_repaired | totals_right | totals_unknown (a SKU is not sound); one of these is the last
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Available is raised only if the sale is paused and nothing is held: what records and
             ledger say beyond what is there is written off otherwise. Cost O(SKUs of the sale). ]]
local rules_key, stock_key, skus_key, due_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local pinned_key, events_key, adjustments_key = KEYS[5], KEYS[6], KEYS[7]
local FIELDS = { 'a', 'h', 's', 'g' }

local found = read('rules', 'HMGET', rules_key, 'generation', 'status')
if not found[1] or found[2] == 'deleted' then
  return { 'unknown_sale' }
elseif found[1] ~= ARGV[2] then
  return { 'stale_generation' }
end
local now = now_ms(tonumber(ARGV[1]))
local held = read('due', 'ZCARD', due_key) + read('pinned', 'ZCARD', pinned_key)
local may_raise = found[2] == 'paused' and held == 0
read('events', 'XLEN', events_key)
read('adjustments', 'XLEN', adjustments_key)

local levels, ledger, events = {}, {}, {}
local function repair(sku, operation, revision, seen, records_held, records_sold, granted, adds_up)
  local v = read('stock', 'HMGET', stock_key, sku .. ':a', sku .. ':h', sku .. ':s', sku .. ':g', sku .. ':x',
    sku .. ':r', sku .. ':l')
  local present = format('%s,%s,%s,%s,%s', v[1] or '', v[2] or '', v[3] or '', v[4] or '', v[5] or '0')
  if present ~= seen or v[6] ~= revision then
    return 'moved'
  end
  local level = { h = tonumber(records_held), s = tonumber(records_sold), l = whole_or_nil(v[7], 'stock'),
    r = whole(v[6], 'stock') }
  for n = 1, 4 do
    level[FIELDS[n] .. '0'] = whole(v[n], 'stock')
  end
  level.g = tonumber(granted)
  level.a = level.g - level.h - level.s
  if level.a < 0 then
    return 'oversold\n' .. format('%d', -level.a)
  end
  local word, delta = 'repaired', 0
  if level.a > level.a0 and not (may_raise and adds_up) then
    word, delta = 'written_off', level.a0 - level.a
    level.a, level.g = level.a0, level.g + delta
  end
  levels[sku], level.revised = level, true
  local was = format('was a=%s h=%s s=%s g=%s', v[1], v[2], v[3], v[4])
  ledger[#ledger + 1] = adjustment_text(operation, sku, level, delta, 'repair', was, now)
  events[#events + 1] = 'adjusted\n\n' .. ledger[#ledger]
  return word .. '\n' .. level_text(sku, level) .. '\n' .. format('%d', delta)
end

local answers = { 'ok', format('%d', now), '', '' }
for at = 3, #ARGV, 8 do
  answers[#answers + 1] = repair(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5],
    ARGV[at + 6], ARGV[at + 7] == '1')
end

-- The sum over all SKUs, with those that change now; nil while one of them is not sound.
local function sums()
  local names, sum = read('skus', 'ZRANGE', skus_key, 0, -1), { a = 0, h = 0, s = 0, g = 0 }
  for first = 1, #names, 500 do
    local last = math.min(first + 499, #names)
    local fields = {}
    for n = first, last do
      for f = 1, 4 do
        fields[#fields + 1] = names[n] .. ':' .. FIELDS[f]
      end
    end
    local values = read('stock', 'HMGET', stock_key, unpack(fields))
    for n = first, last do
      for f = 1, 4 do
        local text = values[(n - first) * 4 + f]
        local level = levels[names[n]]
        if not level and not find(text or '', '^%d+$') then
          return nil
        end
        sum[FIELDS[f]] = sum[FIELDS[f]] + (level and level[FIELDS[f]] or tonumber(text))
      end
    end
  end
  return #names > 0 and sum.a + sum.h + sum.s == sum.g and sum or nil
end
local totals, totals_word = sums(), 'totals_unknown'
if totals then
  totals_word = 'totals_right'
  local stored = read('stock', 'HMGET', stock_key, ':a', ':h', ':s', ':g')
  for f = 1, 4 do
    totals[FIELDS[f] .. '0'] = find(stored[f] or '', '^%d+$') and tonumber(stored[f]) or -1
    if totals[FIELDS[f]] ~= totals[FIELDS[f] .. '0'] then
      totals_word = 'totals_repaired'
    end
  end
  levels[''] = totals
end
answers[#answers + 1] = totals_word
local changed = changed_levels(levels, events)
-- Phase 2.
call_chunked('HSET', stock_key, changed)
for n = 1, #ledger do
  redis.call('XADD', adjustments_key, '*', 'e', ledger[n])
end
write_events(events_key, now, events)
return answers
