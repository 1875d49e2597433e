#!lua flags=allow-oom
-- uses: _read _barrier
--[[ Time out the barriers that are late, and remove the ended ones that were kept long enough. The barrier decides.
KEYS[1..3]   st:{b:x}:due events index
KEYS[4..]    st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed   four a barrier
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {"ok", now, "", "", answer...}
Answers      timed_out, with the status before it, "" and the barrier | removed | not_due
             corrupt (looked at again in an hour)
Errors       CORRUPT what           due, events or index hold what no script wrote
Writes       after the last check. Cost O(barriers * log barriers). ]]
local due_key, events_key, index_key = KEYS[1], KEYS[2], KEYS[3]
local BARRIERS_AT, CORRUPT_PAUSE_MS = 4, 3600000
local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
read('events', 'XLEN', events_key)
read('index', 'ZCARD', index_key)
local answers = { 'ok', format('%d', now), '', '' }
local gone, gone_names, due, late = {}, {}, {}, {}
for at = BARRIERS_AT, #KEYS, 4 do
  local barrier, name = read_barrier(at), match(KEYS[at], '}:b:(.*)$')
  local due_ms = tonumber(redis.call('ZSCORE', due_key, name) or '')
  local answer = 'not_due'
  if barrier == nil then
    answer, due[#due + 1], due[#due + 2] = 'corrupt', format('%d', now + CORRUPT_PAUSE_MS), name
  elseif barrier and is_late(barrier, now) then
    time_out_if_late(barrier, now)
    late[#late + 1] = barrier
    answer = 'timed_out\nopen\n\n' .. barrier_text(barrier)
  elseif not barrier or (barrier.status ~= 'open' and due_ms and due_ms <= now) then
    answer, gone_names[#gone_names + 1] = 'removed', name
    for n = at, at + 3 do
      gone[#gone + 1] = KEYS[n]
    end
  elseif barrier.status == 'open' then
    due[#due + 1], due[#due + 2] = format('%d', barrier.deadline_ms), name
  end
  answers[#answers + 1] = answer
end
-- Phase 2.
for _, barrier in ipairs(late) do
  write_barrier(barrier, due_key)
end
call_chunked('ZADD', due_key, due)
for n = 1, #gone do
  redis.call('UNLINK', gone[n])
end
call_chunked('ZREM', due_key, gone_names)
call_chunked('ZREM', index_key, gone_names)
write_events(events_key, now, barrier_events)
return answers
