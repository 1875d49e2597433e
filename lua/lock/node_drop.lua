#!lua flags=allow-oom
-- uses: _read
--[[ Give a lock on one of the independent servers of Redlock back.
KEYS[1]      st:{l:x}:lock:<name>
ARGV[1]      token                  of the caller
Returns      {"dropped"} | {"gone"}: nobody's, or another's
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local owner = read_text(KEYS[1])
if owner == nil then
  corrupt('lock')
elseif owner ~= ARGV[1] then
  return { 'gone' }
end
-- Phase 2.
redis.call('DEL', KEYS[1])
return { 'dropped' }
