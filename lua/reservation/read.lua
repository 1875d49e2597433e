#!lua flags=no-writes
-- uses: _read _stock _book
--[[ Read reservations. Nothing is written: an overdue hold is shown as expired.
KEYS[1..7]   st:{sale}:rules stock due pinned done orphans events
KEYS[8..23]  st:{sale}:buyers:<0..f>
KEYS[24..]   st:{sale}:r:<id>       one an id
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it
Returns      {"ok", now, "", "", answer...} | {"unknown_sale"} | {"stale_generation"}
Answers      found, with "", id and record | unknown_reservation | corrupt
Errors       CORRUPT rules          the rules hold what no script wrote
Writes       nothing. Cost O(lines). ]]
local word = open_book()
if word then
  return { word }
end
local answers = answers_head(false)
for at = RECORDS_AT, #KEYS do
  local record = get_record(KEYS[at])
  if record == nil then
    answers[#answers + 1] = 'corrupt'
  else
    answers[#answers + 1] = record and line('found', '', seen(record)) or 'unknown_reservation'
  end
end
return answers
