-- Reading in phase 1: of the right type, of the right form, or the call is an error and nothing is written.

local format, find, sub, match, gmatch, concat, floor, tonumber =
  string.format, string.find, string.sub, string.match, string.gmatch, table.concat, math.floor, tonumber
local SALE_STATUSES = { active = true, paused = true, closed = true, deleted = true }

-- `what` is a word of ours, never text of a user.
local function corrupt(what)
  error({ err = 'CORRUPT ' .. what })
end

local function read(what, ...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    if find(answer.err, '^WRONGTYPE') then
      corrupt(what)
    end
    error({ err = answer.err })
  end
  return answer
end

-- The text under `key`: false when there is none, nil when the key holds something else.
local function read_text(key)
  local answer = redis.pcall('GET', key)
  if type(answer) ~= 'table' then
    return answer
  elseif not find(answer.err, '^WRONGTYPE') then
    error({ err = answer.err })
  end
end

-- The whole number >= 0 that `text` says.
local function whole(text, what)
  if not text or not find(text, '^%d+$') or #text > 15 then
    corrupt(what)
  end
  return tonumber(text)
end

local function whole_or_nil(text, what)
  if text and text ~= '' then
    return whole(text, what)
  end
end

-- The one clock is the Redis server's; tests move it by the offset.
local function now_ms(clock_offset_ms)
  local time = redis.call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000) + clock_offset_ms
end

-- Calls a variadic command in chunks: unpack fails near 8,000 values. 3,000 is even, so pairs stay together.
local function call_chunked(command, key, values)
  for first = 1, #values, 3000 do
    redis.call(command, key, unpack(values, first, math.min(first + 2999, #values)))
  end
end

-- One stream entry holds the events of a call: RS between events, LF between the fields of one.
local function write_events(events_key, now, events)
  if #events > 0 then
    redis.call('XADD', events_key, '*', 't', format('%d', now), 'e', concat(events, '\30'))
  end
end
