#!lua flags=no-writes
-- uses: _read _barrier
--[[ Read barriers of one bucket; a late one is shown as timed out.
KEYS[1..]    st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed   four a barrier
ARGV[1]      clock_offset_ms        0 outside tests
Returns      {"ok", now, "", "", answer...}
Answers      found, with the barrier | unknown_barrier | corrupt
Errors       nothing                a damaged barrier has an answer of its own
Writes       nothing. Cost O(barriers). ]]
local now = now_ms(tonumber(ARGV[1]))
local answers = { 'ok', format('%d', now), '', '' }
for at = 1, #KEYS, 4 do
  local barrier = read_barrier(at)
  local answer = barrier == nil and 'corrupt' or 'unknown_barrier'
  if barrier then
    if is_late(barrier, now) then
      barrier.status, barrier.ended_ms = 'timed_out', barrier.deadline_ms
    end
    answer = 'found\n' .. barrier_text(barrier)
  end
  answers[#answers + 1] = answer
end
return answers
