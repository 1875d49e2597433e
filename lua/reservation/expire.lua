#!lua flags=allow-oom
-- uses: _read _stock _book
--[[ Give the units of overdue holds back. The record decides, not the caller.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one an id
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      expired, with previous status, id and record | not_due (its place in due, pinned or done is set right)
             orphaned (no record, or a corrupt one: moved from due, pinned and done to orphans) | deferred
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       after the last check. Cost O(lines + log holds). ]]
local word = open_book()
if word then
  return { word }
end
local fit = read_records(1, #KEYS)
check_types(true)

local orphans, done_remove = {}, {}
local function expire_one(key)
  local record, id = get_record(key), sub(key, -22)
  if record and is_overdue(record) then
    return expire(record)
  end
  local is_in_pinned = read('pinned', 'ZSCORE', pinned_key, id)
  if is_in_pinned and not (record and is_pinned(record)) then
    pinned_remove[#pinned_remove + 1] = id
  end
  if not record then
    if is_in_pinned or redis.call('ZSCORE', due_key, id) or redis.call('ZSCORE', done_key, id) then
      due_remove[#due_remove + 1], done_remove[#done_remove + 1] = id, id
      orphans[#orphans + 1], orphans[#orphans + 2] = format('%d', now), id
    end
    return 'orphaned'
  elseif record[STATUS] == 'held' then
    due_add[#due_add + 1], due_add[#due_add + 2] = is_pinned(record) and '+inf' or record[EXPIRES_AT], id
    done_remove[#done_remove + 1] = id
    if is_pinned(record) and not is_in_pinned then
      enter_pinned(record)
    end
  else
    due_remove[#due_remove + 1] = id
    if not redis.call('ZSCORE', done_key, id) then
      keep(record)
    end
  end
  return 'not_due'
end

local answers = {}
for at = RECORDS_AT, #KEYS do
  answers[#answers + 1] = at < RECORDS_AT + fit and expire_one(KEYS[at]) or 'deferred'
end
local done = close_book(answers)
call_chunked('ZREM', done_key, done_remove)
call_chunked('ZADD', orphans_key, orphans)
return done
