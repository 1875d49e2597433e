#!lua flags=no-writes
-- uses: _read
--[[ What the sweeper has to do in a sale, and when it must look again.
KEYS[1]      st:{sale}:rules
KEYS[2]      st:{sale}:due
KEYS[3]      st:{sale}:pinned
KEYS[4]      st:{sale}:done
KEYS[5]      st:{sale}:orphans
KEYS[6]      st:{sale}:events
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      limit                  most ids of each kind
Returns      {now, status, next_ms, open, overdue, orphans, overdue ids, ids to archive, entries, oldest_ms,
             deleted_at_ms, pinned ids}; next_ms is the earliest deadline or end of retention, or when the next pinned
             one is to be resolved ('' = none); ids are joined by commas, pinned ones are those to be resolved now; a
             deleted sale lists all of `done`; oldest_ms is the time of the oldest entry of events ('' = none)
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(limit + log n). ]]
local now = now_ms(tonumber(ARGV[1]))
local limit = ARGV[2]
local rules = read('rules', 'HMGET', KEYS[1], 'status', 'deleted_at_ms')
local status = rules[1] or ''
local open = read('due', 'ZCARD', KEYS[2])
local overdue_count = open > 0 and redis.call('ZCOUNT', KEYS[2], '-inf', format('%d', now)) or 0
local overdue = redis.call('ZRANGE', KEYS[2], '-inf', format('%d', now), 'BYSCORE', 'LIMIT', 0, limit)
local over = status == 'deleted' and '+inf' or format('%d', now)
local ended = read('done', 'ZRANGE', KEYS[4], '-inf', over, 'BYSCORE', 'LIMIT', 0, limit)
local orphans = read('orphans', 'ZCARD', KEYS[5])
local entries = read('events', 'XLEN', KEYS[6])
local oldest = redis.call('XRANGE', KEYS[6], '-', '+', 'COUNT', 1)[1]
-- A damaged entry is the trouble of whoever reads events, not of the sweeper.
local oldest_ms = oldest and match(oldest[2][2] or '', '^%d+$') or ''
local pinned = read('pinned', 'ZRANGE', KEYS[3], '-inf', format('%d', now), 'BYSCORE', 'LIMIT', 0, limit)
-- Whoever resolves those that are due may need several tries: they come again with each round, and hurry none.
local later = redis.call('ZRANGE', KEYS[3], format('(%d', now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
local next_ms
for _, first in ipairs({
  redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'), redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES'), later,
}) do
  local score = tonumber(first[2])
  if score and score < 2 ^ 53 and (not next_ms or score < next_ms) then
    next_ms = score
  end
end
return {
  format('%d', now), status, next_ms and format('%d', next_ms) or '', format('%d', open),
  format('%d', overdue_count), format('%d', orphans), concat(overdue, ','), concat(ended, ','),
  format('%d', entries), #oldest_ms <= 15 and oldest_ms or '', rules[2] or '',
  concat(pinned, ','),
}
