#!lua flags=allow-oom
-- uses: _read
--[[ Give back what a caller got who was gone by then, as if it had never been: a repeat of his call takes it anew.
Unless a repeat has met it already.
KEYS[1]      st:{sale}:lock:<name>  or st:{l:x}:lock:<name>
ARGV[1]      lease                  token:fence:deadline, as acquire has written it
Returns      {"abandoned" | "kept"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local text = read_text(KEYS[1])
if text == nil then
  corrupt('lock')
elseif text ~= ARGV[1] then
  return { 'kept' }
end
-- Phase 2.
redis.call('DEL', KEYS[1])
return { 'abandoned' }
