#!lua flags=no-writes
-- uses: _read
--[[ Show records with their places in due, done and pinned, for the audit: what one call shows was true at one moment.
KEYS[1]      st:{sale}:due
KEYS[2]      st:{sale}:done
KEYS[3]      st:{sale}:pinned
KEYS[4..]    st:{sale}:r:<id>       one an id
Returns      {due score, done score, pinned score, record, ...}; '' where there is none, "wrong_type" for a record of
             another type
Errors       CORRUPT what           a fixed key holds what no script wrote
Writes       nothing. Cost O(ids + log n). ]]
local answers = {}
for at = 4, #KEYS do
  local id = sub(KEYS[at], -22)
  local record = redis.pcall('GET', KEYS[at])
  if type(record) == 'table' then
    record = 'wrong_type'
  end
  answers[#answers + 1] = read('due', 'ZSCORE', KEYS[1], id) or ''
  answers[#answers + 1] = read('done', 'ZSCORE', KEYS[2], id) or ''
  answers[#answers + 1] = read('pinned', 'ZSCORE', KEYS[3], id) or ''
  answers[#answers + 1] = record or ''
end
return answers
