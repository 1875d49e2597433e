#!lua flags=allow-oom
-- uses: _read _delivery
--[[ Write down what became of tries. Only the last claim of a delivery may; without a token it must not be claimed.
KEYS[1..3]   st:{w:id}:due done dead
KEYS[4..]    st:{w:id}:d:<event>    one a try, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      done_keep_ms           how long a delivered one is kept
ARGV[3]      dead_keep_ms           how long a dead one is kept
ARGV[4..]    of each: token, status, delay_ms, answer, error   status is pending (try again after delay_ms),
             delivered or dead; answer is the HTTP status, '' for none
Returns      {"ok", now, "", "", answer...}
Answers      settled | under_way (no token was given, and somebody is sending it)
             | lost (another has claimed it, or it has ended, or is gone: nothing is written)
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(records * log n). ]]
local due_key, done_key, dead_key = KEYS[1], KEYS[2], KEYS[3]
local keep_ms = { delivered = tonumber(ARGV[2]), dead = tonumber(ARGV[3]) }
local TRIES_AT, TRY_ARGS = 4, 5

local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
read('done', 'ZCARD', done_key)
read('dead', 'ZCARD', dead_key)
local answers, records, ended = { 'ok', format('%d', now), '', '' }, {}, {}
local members = { pending = {}, delivered = {}, dead = {} }
for n = 4, #KEYS do
  local key, id, at = KEYS[n], id_of(KEYS[n]), TRIES_AT + (n - 4) * TRY_ARGS
  local token, status, delay_ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local record = read_delivery(key)
  local answer = 'settled'
  if not record or record[STATUS] ~= 'pending' or (token ~= '' and record[TOKEN] ~= token) then
    answer = 'lost'
  elseif token == '' and is_claimed(record, redis.call('ZSCORE', due_key, id), now) then
    answer = 'under_way'
  else
    record[STATUS], record[TOKEN] = status, ''
    record[LAST_STATUS], record[LAST_ERROR] = ARGV[at + 3], ARGV[at + 4]
    if status ~= 'pending' then
      record[ENDED_AT], ended[#ended + 1] = format('%d', now), id
    end
    records[key] = record
    local list = members[status]
    list[#list + 1], list[#list + 2] = format('%d', now + (keep_ms[status] or delay_ms)), id
  end
  answers[#answers + 1] = answer
end
-- Phase 2.
write_deliveries(records, {})
call_chunked('ZREM', due_key, ended)
call_chunked('ZADD', due_key, members.pending)
call_chunked('ZADD', done_key, members.delivered)
call_chunked('ZADD', dead_key, members.dead)
return answers
