#!lua flags=allow-oom
-- uses: _read _delivery
--[[ Take deliveries that are due for a try: until the lease ends nobody else gets them.
KEYS[1]      st:{w:id}:due
KEYS[2..]    st:{w:id}:d:<event>    named by due, each once
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      lease_ms
ARGV[3]      token                  of this try: settle compares it
ARGV[4]      bytes_max              of records; the first one comes however big it is
Returns      {"ok", now, "", "", answer...}
Answers      claimed (then the record) | not_due | orphaned (no record, or a damaged one: it is dropped) | deferred
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(bytes + records * log waiting). ]]
local due_key, lease_ms, token, bytes_max = KEYS[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local now = now_ms(tonumber(ARGV[1]))
local until_ms = format('%d', now + lease_ms)
read('due', 'ZCARD', due_key)
local answers, records, gone, orphans, members = { 'ok', format('%d', now), '', '' }, {}, {}, {}, {}
local bytes = 0
for n = 2, #KEYS do
  local key, id = KEYS[n], id_of(KEYS[n])
  local score = redis.call('ZSCORE', due_key, id)
  local answer
  if not score or tonumber(score) > now then
    answer = 'not_due'
  elseif bytes > bytes_max then
    answer = 'deferred'
  else
    local record = read_delivery(key)
    if not record or record[STATUS] ~= 'pending' then
      answer, gone[#gone + 1], orphans[#orphans + 1] = 'orphaned', key, id
    else
      record[ATTEMPTS] = format('%d', whole(record[ATTEMPTS], 'delivery') + 1)
      record[TOKEN] = token
      records[key] = record
      members[#members + 1], members[#members + 2] = until_ms, id
      answer = 'claimed\n' .. concat(record, '\n')
      bytes = bytes + #answer
    end
  end
  answers[#answers + 1] = answer
end
-- Phase 2.
write_deliveries(records, gone)
call_chunked('ZREM', due_key, orphans)
call_chunked('ZADD', due_key, members)
return answers
