#!lua
-- uses: _read
--[[ Make a lock on one of the independent servers of Redlock stand longer; never shorter.
KEYS[1]      st:{l:x}:lock:<name>
ARGV[1]      token                  of the caller
ARGV[2]      ttl_ms                 how long it stands from now on
Returns      {"extended"} | {"gone"}: nobody's, or another's
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local owner = read_text(KEYS[1])
if owner == nil then
  corrupt('lock')
elseif owner ~= ARGV[1] then
  return { 'gone' }
end
-- Phase 2.
redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
return { 'extended' }
