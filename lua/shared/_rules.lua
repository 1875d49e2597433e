-- The sale as one text, for events: version, status, rules, count of SKUs, totals.

local RULES = { 'opens_at_ms', 'closes_at_ms', 'hold_ms', 'hold_ms_max', 'buyer_limit', 'buyer_holds_max',
  'confirmed_retention_ms', 'ended_retention_ms' }

-- Generation, version, status and rules by name; nil when there is no such sale.
local function read_rules(rules_key)
  local values = read('rules', 'HMGET', rules_key, 'generation', 'version', 'status', 'last_op',
    unpack(RULES))
  if values[1] then
    if not SALE_STATUSES[values[3]] then
      corrupt('rules')
    end
    local rules = { generation = values[1], version = whole(values[2], 'rules'), status = values[3],
      last_op = values[4] or '' }
    for n = 1, #RULES do
      rules[RULES[n]] = values[4 + n] or ''
    end
    return rules
  end
end

local function sale_text(rules, sku_count, totals)
  local fields = { rules.generation, format('%d', rules.version), rules.status }
  for n = 1, #RULES do
    fields[#fields + 1] = rules[RULES[n]]
  end
  fields[#fields + 1] = format('%d\n%d\n%d\n%d\n%d', sku_count, totals.a, totals.h, totals.s, totals.g)
  return concat(fields, '\n')
end
