-- Fences: a request may depend on a lock of the sale. The locks of a call are the last ARGV[3] of its KEYS, each once.

local LAST_AT = #KEYS - tonumber(ARGV[3]) -- the last key that is no lock
local locks = {} -- what stands in them, by key: read once

-- Why a request must not write, or nil. Its claim is '', or `<number of its lock>:<token>:<fence>`.
local function fence_refusal(claim, now)
  if claim == '' then
    return nil
  end
  local number, token, fence = match(claim, '^(%d+):([^:]+):(%d+)$')
  local key = KEYS[LAST_AT + tonumber(number)]
  if not locks[key] then
    locks[key] = { text = read_text(key) }
  end
  local text = locks[key].text
  if text == nil then
    return 'corrupt'
  end
  return not holds_lock(text, token, fence, now) and 'stale_fence' or nil
end
