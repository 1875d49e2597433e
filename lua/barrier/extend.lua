#!lua
-- uses: _read _barrier
--[[ Move the deadline of an open barrier away; never nearer.
KEYS[1..2]   st:{b:x}:due events
KEYS[3..6]   st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      until_deadline_ms      from now
Returns      {"extended" | "unchanged" | "barrier_ended", now, previous status, text} | {"unknown_barrier"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check; a late barrier times out, whatever is answered. Cost O(log barriers). ]]
local due_key, events_key = KEYS[1], KEYS[2]
local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
read('events', 'XLEN', events_key)
local barrier = the_barrier(3)
if not barrier then
  return { 'unknown_barrier' }
end
local previous = barrier.status
time_out_if_late(barrier, now)
local deadline_ms = now + tonumber(ARGV[2])
local word = 'unchanged'
if barrier.status ~= 'open' then
  word = 'barrier_ended'
elseif deadline_ms > barrier.deadline_ms then
  word, barrier.deadline_ms, barrier.due = 'extended', deadline_ms, deadline_ms
  set(barrier, 'deadline_ms', format('%d', deadline_ms))
end
-- Phase 2.
write_barrier(barrier, due_key)
write_events(events_key, now, barrier_events)
return { word, format('%d', now), previous, barrier_text(barrier) }
