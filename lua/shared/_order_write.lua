-- Writing of orders. Whoever begins a step enters the order in `due` by the time when others may take it over.

-- Every key that is written besides the record must be of its type.
local function check_order_types()
  read('index', 'ZCARD', index_key)
  read('due', 'ZCARD', due_key)
  read('done', 'ZCARD', done_key)
  read('events', 'XLEN', events_key)
end

-- An order takes a status that lasts until `until_ms`: a step under way, or a hold.
local function go_on(order, until_ms)
  local id = sub(order_key, -22)
  redis.call('SET', order_key, concat(order, '\n'))
  redis.call('ZADD', due_key, format('%d', until_ms), id)
  redis.call('ZREM', done_key, id)
end

-- An order has ended, and is kept for a while.
local function end_order(order, now)
  local id = sub(order_key, -22)
  local kept = order[STATUS] == 'confirmed' and CONFIRMED_KEPT_MS or ENDED_KEPT_MS
  redis.call('SET', order_key, concat(order, '\n'))
  redis.call('ZREM', due_key, id)
  redis.call('ZADD', done_key, format('%d', now + kept), id)
end

local function tell(order, previous, now)
  write_events(events_key, now, { order[STATUS] .. '\n' .. previous .. '\n' .. order_text(order_key, order) })
end
