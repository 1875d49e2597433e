#!lua flags=allow-oom
-- uses: _read _order _order_write
--[[ The next step of an order by whoever works on it: nobody else knows its attempt.
KEYS[1..4]   st:{o:x}:index due done events
KEYS[5]      st:{o:x}:o:<id>
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      attempt                of the caller
ARGV[3]      lease_ms               for what comes then
ARGV[4]      to                     "pinning" (again, with fresh parts) | "confirming" (it is decided) | "confirmed" |
                                    "aborting" (undo it) | "undone" (all parts are back)
ARGV[5]      lines                  of "pinning": the parts from now on, else ''
ARGV[6]      goal                   of "aborting": "released" | "expired" | "refused" (then the record goes), else ''
Returns      {"pinning" | "confirming" | "confirmed" | "aborting" | "released" | "expired" | "removed", now, previous
             status, text} | {"lost", now}: somebody else works on it, or did
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(log orders). ]]
local COMES_AFTER = { pinning = { pinning = true }, confirming = { pinning = true }, confirmed = { confirming = true },
  aborting = { holding = true, pinning = true }, undone = { aborting = true } }
local now, to = now_ms(tonumber(ARGV[1])), ARGV[4]
local order = read_order(order_key)
if order == nil then
  corrupt('order')
end
check_order_types()
if not order or order[ATTEMPT] ~= ARGV[2] or not COMES_AFTER[to][order[STATUS]] then
  return { 'lost', format('%d', now) }
end
local previous, id = order[STATUS], sub(order_key, -22)
if to == 'undone' and order[GOAL] == 'refused' then
  -- Phase 2.
  redis.call('DEL', order_key)
  for _, key in ipairs({ index_key, due_key, done_key }) do
    redis.call('ZREM', key, id)
  end
  return { 'removed', format('%d', now), previous, order_text(order_key, order) }
end
order[STATUS] = to == 'undone' and order[GOAL] or to
if to == 'pinning' then
  order[LINES] = ARGV[5]
elseif to == 'aborting' then
  order[GOAL] = ARGV[6]
elseif to == 'confirmed' or to == 'undone' then
  order[ENDED_AT], order[GOAL] = format('%d', now), ''
end
-- Phase 2.
if IS_UNDER_WAY[order[STATUS]] then
  go_on(order, now + tonumber(ARGV[3]))
else
  end_order(order, now)
  tell(order, previous, now)
end
return { order[STATUS], format('%d', now), previous, order_text(order_key, order) }
