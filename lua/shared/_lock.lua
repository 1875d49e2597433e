-- What stands in the key of a lock: `token:fence:deadline`, with `:met` once a repeat of acquire has met it; or
-- `released:token`.

-- The parts of `text`: token, fence, deadline and met of a lease, or released alone. nil when it has another form.
local function parse_lock(text)
  local released = match(text, '^released:([%w_-]+)$')
  if released then
    return { released = released }
  end
  local token, fence, deadline, met = match(text, '^([%w_-]+):(%d+):(%d+)(.*)$')
  if token and #fence <= 15 and #deadline <= 15 and (met == '' or met == ':met') then
    return { token = token, fence = tonumber(fence), deadline = tonumber(deadline), met = met == ':met' }
  end
end

-- Whether `text` (false: there is none) is a lease with this token and fence that is not over.
local function holds_lock(text, token, fence_text, now)
  local lock = text and parse_lock(text)
  return lock and lock.token == token and lock.fence == tonumber(fence_text) and now < lock.deadline or false
end
