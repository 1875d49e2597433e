#!lua flags=allow-oom
-- uses: _read _barrier
--[[ End an open barrier before its time.
KEYS[1..2]   st:{b:x}:due events
KEYS[3..6]   st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {"cancelled" | "replayed" | "barrier_ended", now, previous status, text} | {"unknown_barrier"}
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
local word = barrier.status == 'cancelled' and 'replayed' or 'barrier_ended'
if barrier.status == 'open' then
  word = 'cancelled'
  end_barrier(barrier, 'cancelled', now, now)
end
-- Phase 2.
write_barrier(barrier, due_key)
write_events(events_key, now, barrier_events)
return { word, format('%d', now), previous, barrier_text(barrier) }
