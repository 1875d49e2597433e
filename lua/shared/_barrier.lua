-- Barriers as tables: read once, moved in memory, written once. Each has four keys, in a row: its state, marks,
-- missing, failed. Mode count has no other names than those of its marks, which are then a hash.

local PARTICIPANTS_MAX, LISTED_MAX = 100000, 100
local NUMBERS = { 'expected', 'completed', 'failed', 'tolerated', 'created_ms', 'deadline_ms', 'ended_ms',
  'retention_ms' }
local MAY_BE_EMPTY = { expected = true, tolerated = true, ended_ms = true }
local BARRIER_STATUSES = { open = true, completed = true, failed = true, timed_out = true, cancelled = true }
local barrier_events = {}

-- What a command reads; nil when the key is of another type.
local function try_read(...)
  local answer = redis.pcall(...)
  if type(answer) ~= 'table' or not answer.err then
    return answer
  elseif not find(answer.err, '^WRONGTYPE') then
    error({ err = answer.err })
  end
end

-- The barrier whose keys begin at KEYS[at]: false when there is none, nil when it holds what no script wrote.
local function read_barrier(at)
  local key, marks_key, missing_key, failed_key = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3]
  local words = try_read('HMGET', key, 'status', 'mode', 'notify', 'fired', 'spec', unpack(NUMBERS))
  if not words then
    return nil
  elseif not words[1] then
    return false
  end
  local barrier = { key = key, marks_key = marks_key, missing_key = missing_key, failed_key = failed_key,
    name = match(key, '}:b:(.*)$'), status = words[1], mode = words[2], notify = words[3] or '',
    fired = words[4] or '', spec = words[5] or '', people = {}, names = {}, set = {} }
  for n = 1, #NUMBERS do
    local field, text = NUMBERS[n], words[5 + n]
    if (not text or text == '') and MAY_BE_EMPTY[field] then
      barrier[field] = ''
    elseif text and find(text, '^%d+$') and #text <= 15 then
      barrier[field] = tonumber(text)
    else
      return nil
    end
  end
  local arrived, missing, failed
  if barrier.mode == 'members' then
    arrived, missing = try_read('ZCARD', marks_key), try_read('ZCARD', missing_key)
    failed = try_read('ZCARD', failed_key)
  elseif barrier.mode == 'count' then
    arrived, missing, failed = try_read('HLEN', marks_key), 0, barrier.failed
  end
  if not BARRIER_STATUSES[barrier.status] or not missing or failed ~= barrier.failed
    or arrived ~= barrier.completed + barrier.failed then
    return nil
  end
  barrier.missing, barrier.declared = missing, arrived + missing
  return barrier
end

-- The same where the whole call is about it.
local function the_barrier(at)
  local barrier = read_barrier(at)
  if barrier == nil then
    corrupt('barrier')
  end
  return barrier
end

local function is_late(barrier, now)
  return barrier.status == 'open' and now >= barrier.deadline_ms
end

local function number_text(number)
  return number == '' and '' or format('%d', number)
end

-- The barrier as one text, for answers and events.
local function barrier_text(barrier)
  return concat({ barrier.name, barrier.status, barrier.mode, number_text(barrier.expected),
    number_text(barrier.completed), number_text(barrier.failed), number_text(barrier.declared),
    number_text(barrier.tolerated), number_text(barrier.created_ms), number_text(barrier.deadline_ms),
    number_text(barrier.ended_ms), number_text(barrier.retention_ms), barrier.notify }, '\n')
end

-- The first who are missing and who failed, with what this call has moved already.
local function end_text(barrier)
  local missing, failed, notes = {}, {}, {}
  if barrier.mode == 'members' then
    local last = LISTED_MAX - 1 + #barrier.names
    for _, name in ipairs(redis.call('ZRANGE', barrier.missing_key, 0, last)) do
      local person = barrier.people[name]
      if #missing < LISTED_MAX and not (person and person.outcome) then
        missing[#missing + 1] = name
      end
    end
    for _, name in ipairs(redis.call('ZRANGE', barrier.failed_key, 0, last)) do
      local person = barrier.people[name]
      if not person or person.outcome == 'failed' then
        failed[#failed + 1] = name
      end
    end
    for _, name in ipairs(barrier.names) do
      local person = barrier.people[name]
      if person.outcome == 'failed' and person.was ~= 'failed' then
        failed[#failed + 1] = name
      end
    end
    for n = #failed, LISTED_MAX + 1, -1 do
      failed[n] = nil
    end
    for n = 1, #failed do
      notes[n] = 'n:' .. failed[n]
    end
    notes = #notes > 0 and redis.call('HMGET', barrier.key, unpack(notes)) or notes
    for n = 1, #failed do
      local person = barrier.people[failed[n]]
      local note = notes[n]
      if person and person.was ~= 'failed' then
        note = person.note ~= '' and person.note
      end
      failed[n] = note and failed[n] .. ' ' .. note or failed[n]
    end
  end
  local is_cut = #missing < barrier.missing or #failed < barrier.failed
  local lines = { barrier_text(barrier), is_cut and '1' or '', concat(missing, ',') }
  for n = 1, #failed do
    lines[#lines + 1] = failed[n]
  end
  return concat(lines, '\n')
end

local function set(barrier, field, value)
  barrier.set[#barrier.set + 1], barrier.set[#barrier.set + 2] = field, value
end

-- Ends an open one. Its `due` then says when it is removed.
local function end_barrier(barrier, status, ended_ms, now)
  barrier.status, barrier.ended_ms, barrier.due = status, ended_ms, now + barrier.retention_ms
  set(barrier, 'status', status)
  set(barrier, 'ended_ms', format('%d', ended_ms))
  barrier_events[#barrier_events + 1] = status .. '\nopen\n' .. end_text(barrier)
end

-- The deadline comes first, whoever calls.
local function time_out_if_late(barrier, now)
  if is_late(barrier, now) then
    end_barrier(barrier, 'timed_out', barrier.deadline_ms, now)
  end
end

-- Ends it if its numbers say so; `by` names the call that fires.
local function end_if_done(barrier, by, now)
  local tolerates = barrier.tolerated ~= ''
  local status
  if tolerates and barrier.failed > barrier.tolerated then
    status = 'failed'
  elseif barrier.expected ~= ''
    and barrier.completed + (tolerates and barrier.failed or 0) >= barrier.expected then
    status = 'completed'
  end
  if status then
    barrier.fired = by
    set(barrier, 'fired', by)
    end_barrier(barrier, status, now, now)
  end
end

local function fired_text(barrier, by)
  return barrier.fired == by and '1' or ''
end

-- Phase 2 of its state; who arrived is written by `arrive`.
local function write_barrier(barrier, due_key)
  call_chunked('HSET', barrier.key, barrier.set)
  if barrier.due then
    redis.call('ZADD', due_key, format('%d', barrier.due), barrier.name)
  end
end
