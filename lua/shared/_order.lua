-- Orders: one record each, twelve fields, one a line. The last five are as the caller packed them.

local index_key, due_key, done_key, events_key, order_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local STATUS, ATTEMPT, EXPIRES_AT, ENDED_AT, GOAL, LINES, FINGERPRINT = 1, 2, 4, 5, 6, 7, 8
local ORDER_PATTERN = '^(%l+)\n([%w_-]+)\n(%d+)\n(%d*)\n(%d*)\n(%l*)\n([%w._=,-]+)\n([%w_-]+)\n(%d*)\n'
  .. '([^\n]*)\n([^\n]*)\n([^\n]*)$'
local ORDER_STATUSES = { holding = true, held = true, pinning = true, confirming = true, confirmed = true,
  aborting = true, released = true, expired = true }
local IS_UNDER_WAY = { holding = true, pinning = true, confirming = true, aborting = true }
-- From the end: 30 days what was confirmed, a day what was not. A corrupt one is looked at again in an hour.
local CONFIRMED_KEPT_MS, ENDED_KEPT_MS, CORRUPT_REST_MS = 2592000000, 86400000, 3600000

-- The record that `raw` says; nil: corrupt.
local function parse_order(raw)
  local order = { match(raw, ORDER_PATTERN) }
  if ORDER_STATUSES[order[STATUS]] and #order[EXPIRES_AT] <= 15 and (order[STATUS] ~= 'held' or order[EXPIRES_AT] ~= '')
    and (order[STATUS] ~= 'aborting' or order[GOAL] ~= '') then
    return order
  end
end

-- The record under `key`: a table, false when there is none, nil when it is corrupt.
local function read_order(key)
  local raw = read_text(key)
  if not raw then
    return raw
  end
  return parse_order(raw)
end

local function is_late(order, now)
  return order[STATUS] == 'held' and now >= tonumber(order[EXPIRES_AT])
end

-- `id LF record`: the same text is the answer and, behind its words, the event.
local function order_text(key, order)
  return sub(key, -22) .. '\n' .. concat(order, '\n')
end

-- What a reader sees: a late one has expired, though its parts are still to be given back.
local function seen_order(order, now)
  if not is_late(order, now) then
    return order
  end
  local copy = { unpack(order) }
  copy[STATUS], copy[ENDED_AT] = 'expired', order[EXPIRES_AT]
  return copy
end
