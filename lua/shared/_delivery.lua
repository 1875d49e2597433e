-- The record of a delivery, as a table while a call works on it; read and written once.

local STATUS, ATTEMPTS, ENDED_AT, SINCE, LAST_STATUS, LAST_ERROR, TOKEN = 1, 2, 4, 5, 6, 7, 8
local DELIVERY_FORM = '^(%l+)\n(%d+)\n(%d+)\n(%d*)\n(%d+)\n(%d*)\n([^\n]*)\n([^\n]*)\n(.+)$'
local DELIVERY_STATUSES = { pending = true, delivered = true, dead = true }

-- false when there is none, nil when it is damaged.
local function read_delivery(key)
  local text = read_text(key)
  if not text then
    return text
  end
  local record = { match(text, DELIVERY_FORM) }
  if DELIVERY_STATUSES[record[STATUS]] then
    return record
  end
end

local function id_of(key)
  return sub(key, -22)
end

-- Whether somebody is sending it now: then its score is the end of the lease.
local function is_claimed(record, score, now)
  return record[TOKEN] ~= '' and score and tonumber(score) > now
end

-- Writes of phase 2, by key: `records` are set, `gone` are deleted.
local function write_deliveries(records, gone)
  for key, record in pairs(records) do
    redis.call('SET', key, concat(record, '\n'))
  end
  for _, key in ipairs(gone) do
    redis.call('UNLINK', key)
  end
end
