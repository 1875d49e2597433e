#!lua
-- uses: _read _delivery
--[[ Begin anew with deliveries, as if they had just been queued.
KEYS[1..3]   st:{w:id}:due done dead
KEYS[4..]    st:{w:id}:d:<event>    each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      pending_max            beyond so many that wait, nothing more is taken
Returns      {"ok", now, "", "", answer...}
Answers      requeued | under_way (somebody is sending it) | full | unknown_delivery
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(records * log n). ]]
local due_key, done_key, dead_key, pending_max = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[2])

local now = now_ms(tonumber(ARGV[1]))
local at = format('%d', now)
local pending = read('due', 'ZCARD', due_key)
read('done', 'ZCARD', done_key)
read('dead', 'ZCARD', dead_key)
local answers, records, ids, members = { 'ok', at, '', '' }, {}, {}, {}
for n = 4, #KEYS do
  local key, id = KEYS[n], id_of(KEYS[n])
  local record = read_delivery(key)
  local answer = 'requeued'
  if not record then
    answer = 'unknown_delivery'
  elseif is_claimed(record, redis.call('ZSCORE', due_key, id), now) then
    answer = 'under_way'
  elseif record[STATUS] ~= 'pending' and pending >= pending_max then
    answer = 'full'
  else
    if record[STATUS] ~= 'pending' then
      pending = pending + 1
    end
    record[STATUS], record[ATTEMPTS], record[ENDED_AT], record[SINCE], record[TOKEN] = 'pending', '0', '', at, ''
    records[key] = record
    ids[#ids + 1] = id
    members[#members + 1], members[#members + 2] = at, id
  end
  answers[#answers + 1] = answer
end
-- Phase 2.
write_deliveries(records, {})
call_chunked('ZREM', done_key, ids)
call_chunked('ZREM', dead_key, ids)
call_chunked('ZADD', due_key, members)
return answers
