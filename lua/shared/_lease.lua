-- Leases of one lock. A lock in a sale declares the sale's rules as well; a free-standing one has none.

local LOCK_CLEANED_MS = 60000 -- the key of a lease goes so long after its end

-- Why a lock in a sale cannot be had: there is no such sale, or it is another incarnation.
local function sale_refusal(rules_key, generation)
  if not rules_key then
    return nil
  end
  local found = read('rules', 'HMGET', rules_key, 'generation', 'status')
  if not found[1] or found[2] == 'deleted' then
    return 'unknown_sale'
  end
  return found[1] ~= generation and 'stale_generation' or nil
end

-- What stands under `key`, as parse_lock has it; false when nothing does. Its text is in `text`.
local function read_lease(key)
  local text = read_text(key)
  local lease = text and parse_lock(text)
  if text == nil or text and not lease then
    corrupt('lock')
  end
  if lease then
    lease.text = text
  end
  return lease
end

-- Whether anybody has it.
local function is_live(lease, now)
  return lease and not lease.released and now < lease.deadline
end

local function lease_answer(word, now, lease)
  return { word, format('%d', now), format('%d', lease.fence), format('%d', lease.deadline) }
end

-- Why a token has no lease: somebody else has one, or nobody.
local function not_mine(lease, now)
  return { is_live(lease, now) and 'not_owner' or 'lock_expired', format('%d', now) }
end
