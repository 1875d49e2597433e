-- Levels of SKUs in memory: read once, changed by every request of the batch, written once.
-- A level: a available, h held, s sold, g granted, i initial, l buyer limit or nil, x archived sold, r revision; and
-- `revised` when a record that names it changed.

local LEVEL_FIELDS = { ':a', ':h', ':s', ':g', ':i', ':l', ':x', ':r' }

-- Levels of `skus` (a list; distinct names) by SKU, false for an unknown one; '' holds the totals.
local function read_levels(stock_key, skus)
  local levels, is_made = {}, false
  for first = 1, #skus, 300 do
    local last = math.min(first + 299, #skus)
    local fields = {}
    for n = first, last do
      for f = 1, 8 do
        fields[#fields + 1] = skus[n] .. LEVEL_FIELDS[f]
      end
    end
    local values = read('stock', 'HMGET', stock_key, unpack(fields))
    for n = first, last do
      local at = (n - first) * 8
      if values[at + 1] then
        local a, h = whole(values[at + 1], 'stock'), whole(values[at + 2], 'stock')
        local s, g = whole(values[at + 3], 'stock'), whole(values[at + 4], 'stock')
        if a + h + s ~= g then
          corrupt('stock')
        end
        is_made = true
        levels[skus[n]] = {
          a = a, h = h, s = s, g = g, a0 = a, h0 = h, s0 = s, g0 = g,
          i = whole(values[at + 5], 'stock'), l = whole_or_nil(values[at + 6], 'stock'),
          x = whole_or_nil(values[at + 7], 'stock') or 0, r = whole(values[at + 8], 'stock'),
        }
      else
        levels[skus[n]] = false
      end
    end
  end
  local totals = read('stock', 'HMGET', stock_key, ':a', ':h', ':s', ':g')
  local number = is_made and whole or whole_or_nil -- a sale that is being made has no totals yet
  local a, h = number(totals[1], 'stock') or 0, number(totals[2], 'stock') or 0
  local s, g = number(totals[3], 'stock') or 0, number(totals[4], 'stock') or 0
  if a + h + s ~= g then
    corrupt('stock')
  end
  levels[''] = { a = a, h = h, s = s, g = g, a0 = a, h0 = h, s0 = s, g0 = g }
  return levels
end

-- Moves units of a SKU, and of the sale.
local function move(levels, sku, a, h, s, g)
  local level, totals = levels[sku], levels['']
  level.a, level.h, level.s, level.g = level.a + a, level.h + h, level.s + s, level.g + g
  totals.a, totals.h, totals.s, totals.g = totals.a + a, totals.h + h, totals.s + s, totals.g + g
end

local function level_text(sku, level)
  return format('%s\n%d\n%d\n%d\n%d\n%s', sku, level.a, level.h, level.s, level.g,
    level.l and format('%d', level.l) or '')
end

-- What HSET must write; what would break conservation is refused here, before the first write.
local function changed_levels(levels, events)
  local values = {}
  for sku, level in pairs(levels) do
    local moved = level and (level.a ~= level.a0 or level.h ~= level.h0 or level.s ~= level.s0 or level.g ~= level.g0)
    if moved or (level and level.revised) then
      if level.a < 0 or level.h < 0 or level.s < 0 or level.a + level.h + level.s ~= level.g then
        corrupt('stock')
      end
      for _, name in ipairs({ 'a', 'h', 's', 'g' }) do
        if level[name] ~= level[name .. '0'] then
          values[#values + 1] = sku .. ':' .. name
          values[#values + 1] = format('%d', level[name])
        end
      end
      if sku ~= '' then
        values[#values + 1] = sku .. ':r'
        values[#values + 1] = format('%d', level.r + 1)
        if level.a == 0 and level.a0 > 0 then
          events[#events + 1] = 'sold_out\n\n' .. level_text(sku, level)
        elseif level.a > 0 and level.a0 == 0 then
          events[#events + 1] = 'back_in_stock\n\n' .. level_text(sku, level)
        end
      end
    end
  end
  return values
end

-- An entry of the ledger: the same text is the event and the answer.
local function adjustment_text(operation, sku, level, delta, reason, reference, now)
  return format('%s\n%s\n%d\n%s\n%s\n%d', operation, level_text(sku, level), delta, reason, reference, now)
end
