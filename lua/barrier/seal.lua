#!lua
-- uses: _read _barrier
--[[ Settle how many a barrier waits for; that may complete it.
KEYS[1..2]   st:{b:x}:due events
KEYS[3..6]   st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      expected               '' = those declared until now
Returns      {"sealed" | "replayed" | "barrier_ended", now, previous status, text, fired} |
             {"unknown_barrier"} | {"nothing_declared"} | {"too_many_arrivals", now, declared} |
             {"already_sealed", now, expected}
             fired is 1 or empty: whether it was this seal
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
local expected = tonumber(ARGV[2]) or barrier.declared
local by = 's:' .. format('%d', expected)
local word = 'replayed'
if barrier.expected ~= expected then
  if barrier.status ~= 'open' then
    word = 'barrier_ended'
  elseif barrier.expected ~= '' then
    return { 'already_sealed', format('%d', now), format('%d', barrier.expected) }
  elseif expected == 0 then
    return { 'nothing_declared' }
  elseif expected < barrier.declared then
    return { 'too_many_arrivals', format('%d', now), format('%d', barrier.declared) }
  else
    word, barrier.expected = 'sealed', expected
    set(barrier, 'expected', format('%d', expected))
    end_if_done(barrier, by, now)
  end
end
-- Phase 2.
write_barrier(barrier, due_key)
write_events(events_key, now, barrier_events)
return { word, format('%d', now), previous, barrier_text(barrier), fired_text(barrier, by) }
