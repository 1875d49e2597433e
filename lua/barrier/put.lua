#!lua
-- uses: _read _barrier
--[[ Make a barrier, or say whether the one that is there is the same.
KEYS[1..3]   st:{b:x}:due events index
KEYS[4..7]   st:{b:x}:b:<barrier> b:<barrier>:marks b:<barrier>:missing b:<barrier>:failed
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      expect                 '' anything | "absent"
ARGV[3]      spec                   fingerprint of all that the caller says
ARGV[4]      mode                   "members" or "count"
ARGV[5]      expected               '' = not sealed
ARGV[6]      tolerated              failures; '' = any number
ARGV[7]      until_deadline_ms      from now
ARGV[8]      retention_ms           from its end
ARGV[9]      notify                 URLs with a space between them
ARGV[10..]   names                  of those to wait for
Returns      {"created" | "replayed", now, previous status, text} | {"barrier_exists", now, previous status, text} |
             {"precondition_failed", now, previous status, text}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check; a late barrier times out, whatever is answered. Cost O(names * log names). ]]
local due_key, events_key, index_key, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local NAMES_AT = 10
local now = now_ms(tonumber(ARGV[1]))
read('due', 'ZCARD', due_key)
read('events', 'XLEN', events_key)
read('index', 'ZCARD', index_key)
local barrier = the_barrier(4)
if barrier then
  local previous = barrier.status
  time_out_if_late(barrier, now)
  local word = ARGV[2] == 'absent' and 'precondition_failed' or barrier.spec == ARGV[3] and 'replayed'
    or 'barrier_exists'
  -- Phase 2.
  write_barrier(barrier, due_key)
  write_events(events_key, now, barrier_events)
  return { word, format('%d', now), previous, barrier_text(barrier) }
end

local missing = {}
for at = NAMES_AT, #ARGV do
  missing[#missing + 1], missing[#missing + 2] = 0, ARGV[at]
end
barrier = { name = match(key, '}:b:(.*)$'), status = 'open', mode = ARGV[4], expected = tonumber(ARGV[5]) or '',
  completed = 0, failed = 0, declared = #missing / 2, tolerated = tonumber(ARGV[6]) or '', created_ms = now,
  deadline_ms = now + tonumber(ARGV[7]), ended_ms = '', retention_ms = tonumber(ARGV[8]), notify = ARGV[9] }
-- Phase 2. What an earlier one of this name may have left is none of it.
redis.call('DEL', KEYS[5], KEYS[6], KEYS[7])
redis.call('HSET', key, 'status', 'open', 'mode', barrier.mode, 'spec', ARGV[3], 'expected', ARGV[5],
  'completed', 0, 'failed', 0, 'tolerated', ARGV[6], 'created_ms', format('%d', now),
  'deadline_ms', format('%d', barrier.deadline_ms), 'retention_ms', ARGV[8], 'notify', ARGV[9])
call_chunked('ZADD', KEYS[6], missing)
redis.call('ZADD', due_key, format('%d', barrier.deadline_ms), barrier.name)
redis.call('ZADD', index_key, 0, barrier.name)
return { 'created', format('%d', now), '', barrier_text(barrier) }
