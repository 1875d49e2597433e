#!lua
-- uses: _read
--[[ Queue events for one endpoint: each once by its id, whatever became of it since.
KEYS[1]      st:{w:id}:due
KEYS[2..]    st:{w:id}:d:<event>    one an event, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      pending_max            beyond so many that wait, nothing more is taken
ARGV[3..]    packed                 type LF source LF time in ms LF event as JSON; one an event
Returns      {"ok", now, "", "", answer...}
Answers      queued | known (it was queued before) | full | corrupt (its key holds something else)
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(events * log waiting). ]]
local due_key, pending_max = KEYS[1], tonumber(ARGV[2])
local PACKED_AT = 3

local now = now_ms(tonumber(ARGV[1]))
local at = format('%d', now)
local pending = read('due', 'ZCARD', due_key)
local answers, sets, members = { 'ok', at, '', '' }, {}, {}
for n = 2, #KEYS do
  local length = redis.pcall('STRLEN', KEYS[n])
  local answer = 'known'
  if type(length) == 'table' then
    answer = 'corrupt'
  elseif length == 0 and pending >= pending_max then
    answer = 'full'
  elseif length == 0 then
    answer, pending = 'queued', pending + 1
    sets[#sets + 1] = KEYS[n]
    sets[#sets + 1] = concat({ 'pending', '0', at, '', at, '', '', '', ARGV[PACKED_AT + n - 2] }, '\n')
    members[#members + 1], members[#members + 2] = at, sub(KEYS[n], -22)
  end
  answers[#answers + 1] = answer
end
-- Phase 2.
for n = 1, #sets, 2 do
  redis.call('SET', sets[n], sets[n + 1])
end
call_chunked('ZADD', due_key, members)
return answers
