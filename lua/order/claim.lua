#!lua flags=allow-oom
-- uses: _read _order _order_write
--[[ Begin what is to be done with an order: a call that somebody makes, or what a dead process has left.
KEYS[1..4]   st:{o:x}:index due done events
KEYS[5]      st:{o:x}:o:<id>
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      attempt                random; whoever knows it works on the order from now on
ARGV[3]      lease_ms               after that anybody may take it over
ARGV[4]      want                   "confirm" | "retake" (confirm, also what has expired) | "release" | "recover"
Returns      {"pinning" | "confirming" | "aborting", now, previous status, text}: it is the caller's
             {"in_progress", now, status, text}: somebody else works on it
             {"ended" | "not_due", now, status, text}: it stays as it is
             {"unknown_order" | "corrupt", now}
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check; whatever is wrong with its place in due or done is set right. Cost O(log orders). ]]
local now, want = now_ms(tonumber(ARGV[1])), ARGV[4]
local id = sub(order_key, -22)
local order = read_order(order_key)
check_order_types()
local due_at = tonumber(redis.call('ZSCORE', due_key, id) or 0)
if not order then
  -- Phase 2.
  if order == nil then
    redis.call('ZADD', due_key, format('%d', now + CORRUPT_REST_MS), id)
    return { 'corrupt', format('%d', now) }
  end
  redis.call('ZREM', due_key, id)
  redis.call('ZREM', index_key, id)
  return { 'unknown_order', format('%d', now) }
end

-- What the order becomes, and if it is undone what it will then be; nil and why not.
local function begin(status)
  local late = is_late(order, now)
  if IS_UNDER_WAY[status] then
    if due_at > now then
      return nil, 'in_progress'
    elseif status == 'holding' then
      return 'aborting', 'refused'
    elseif status == 'pinning' then
      return 'aborting', 'released'
    end
    return status, order[GOAL]
  elseif status == 'held' then
    if late and want ~= 'retake' then
      return 'aborting', 'expired'
    elseif want == 'release' then
      return 'aborting', 'released'
    elseif want == 'recover' then
      return nil, 'not_due'
    end
    return 'pinning', ''
  elseif status == 'expired' and want == 'retake' then
    return 'pinning', ''
  end
  return nil, 'ended'
end

local previous = order[STATUS]
local status, goal = begin(previous)
-- Phase 2.
if status then
  order[STATUS], order[GOAL], order[ATTEMPT], order[ENDED_AT] = status, goal, ARGV[2], ''
  go_on(order, now + tonumber(ARGV[3]))
  return { status, format('%d', now), previous, order_text(order_key, order) }
elseif goal == 'ended' then
  redis.call('ZREM', due_key, id)
elseif goal == 'not_due' then
  redis.call('ZADD', due_key, order[EXPIRES_AT], id)
end
return { goal, format('%d', now), previous, order_text(order_key, order) }
