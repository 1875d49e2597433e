#!lua
-- uses: _read _barrier
--[[ Let up to 128 participants arrive at barriers of one bucket; the last one ends its barrier.
KEYS[1..2]   st:{b:x}:due events
KEYS[3..]    st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed, four a barrier
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2..]    arrivals               four each: number of the barrier in KEYS, participant, "completed" or "failed",
                                    note as JSON ('' = none)
Returns      {"ok", now, "", "", answer...}
Answers      arrived | replayed (also of one that had arrived before the end) | barrier_ended | unknown_barrier
             unknown_participant | too_many_participants | corrupt (the barrier)
             (the first three with previous status, "1" if this arrival fired, and the barrier)
Errors       CORRUPT what           due or events hold what no script wrote
Writes       after the last check; a late barrier times out, whatever is answered.
             Cost O(arrivals * log participants). ]]
local due_key, events_key = KEYS[1], KEYS[2]
local BARRIERS_AT, ARRIVALS_AT = 3, 2
local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
read('events', 'XLEN', events_key)

local barriers = {}
for at = BARRIERS_AT, #KEYS, 4 do
  local barrier = read_barrier(at)
  barriers[#barriers + 1] = barrier or { is_corrupt = barrier == nil, names = {}, people = {} }
end
for at = ARRIVALS_AT, #ARGV, 4 do
  local barrier, name = barriers[tonumber(ARGV[at])], ARGV[at + 1]
  if not barrier.people[name] then
    barrier.people[name], barrier.names[#barrier.names + 1] = { note = '' }, name
  end
end
-- How each of them stands: at most 128 names in all.
for _, barrier in ipairs(barriers) do
  local names = barrier.names
  if barrier.mode == 'members' then
    local marks = redis.call('ZMSCORE', barrier.marks_key, unpack(names))
    local missing = redis.call('ZMSCORE', barrier.missing_key, unpack(names))
    local failed = redis.call('ZMSCORE', barrier.failed_key, unpack(names))
    for n = 1, #names do
      local person = barrier.people[names[n]]
      person.arrived_ms, person.is_missing = marks[n], missing[n]
      person.was = marks[n] and (failed[n] and 'failed' or 'completed')
      person.outcome = person.was
    end
  elseif barrier.mode == 'count' then
    local marks = redis.call('HMGET', barrier.marks_key, unpack(names))
    for n = 1, #names do
      local person = barrier.people[names[n]]
      person.was, person.outcome = marks[n], marks[n]
    end
  end
end

-- The number that a word counts.
local function count(barrier, outcome, by)
  barrier[outcome] = barrier[outcome] + by
end

local function arrive(barrier, name, outcome, note)
  local person = barrier.people[name]
  if person.outcome == outcome or person.outcome == 'completed' then
    return 'replayed'
  elseif person.outcome then
    count(barrier, person.outcome, -1)
  elseif person.is_missing then
    barrier.missing = barrier.missing - 1
  elseif barrier.expected ~= '' and barrier.declared >= barrier.expected then
    return 'unknown_participant'
  elseif barrier.declared >= PARTICIPANTS_MAX then
    return 'too_many_participants'
  else
    barrier.declared = barrier.declared + 1
  end
  person.outcome, person.note = outcome, note
  count(barrier, outcome, 1)
  end_if_done(barrier, 'a:' .. outcome .. ':' .. name, now)
  return 'arrived'
end

local function answer(barrier, name, outcome, note)
  if not barrier.status then
    return barrier.is_corrupt and 'corrupt' or 'unknown_barrier'
  end
  local previous = barrier.status
  time_out_if_late(barrier, now)
  local word = barrier.people[name].outcome and 'replayed' or 'barrier_ended'
  if barrier.status == 'open' then
    word = arrive(barrier, name, outcome, note)
  end
  if word == 'unknown_participant' or word == 'too_many_participants' then
    return word
  end
  return concat({ word, previous, fired_text(barrier, 'a:' .. outcome .. ':' .. name), barrier_text(barrier) }, '\n')
end

local answers = { 'ok', format('%d', now), '', '' }
for at = ARRIVALS_AT, #ARGV, 4 do
  answers[#answers + 1] = answer(barriers[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end

local writes = {}
for _, barrier in ipairs(barriers) do
  local write = { marks = {}, arrived = {}, failed = {}, not_failed = {}, no_note = {} }
  local function add(list, one, other)
    write[list][#write[list] + 1], write[list][#write[list] + 2] = one, other
  end
  for _, name in ipairs(barrier.names) do
    local person = barrier.people[name]
    if person.outcome ~= person.was and barrier.mode == 'count' then
      add('marks', name, person.outcome)
    elseif person.outcome ~= person.was then
      local arrived_ms = person.arrived_ms or format('%d', now)
      if not person.was then
        add('marks', arrived_ms, name)
        add('arrived', name)
      end
      if person.outcome == 'failed' then
        add('failed', arrived_ms, name)
      elseif person.was then
        add('not_failed', name)
      end
      if person.note ~= '' then
        set(barrier, 'n:' .. name, person.note)
      elseif person.was then
        add('no_note', 'n:' .. name)
      end
    end
  end
  if barrier.status and (#write.marks > 0 or #write.not_failed > 0) then
    set(barrier, 'completed', format('%d', barrier.completed))
    set(barrier, 'failed', format('%d', barrier.failed))
  end
  writes[#writes + 1] = write
end
-- Phase 2.
for n, barrier in ipairs(barriers) do
  if barrier.status then
    call_chunked(barrier.mode == 'count' and 'HSET' or 'ZADD', barrier.marks_key, writes[n].marks)
    call_chunked('ZREM', barrier.missing_key, writes[n].arrived)
    call_chunked('ZADD', barrier.failed_key, writes[n].failed)
    call_chunked('ZREM', barrier.failed_key, writes[n].not_failed)
    call_chunked('HDEL', barrier.key, writes[n].no_note)
    write_barrier(barrier, due_key)
  end
end
write_events(events_key, now, barrier_events)
return answers
