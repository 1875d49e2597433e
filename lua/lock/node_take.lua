#!lua
-- uses: _read
--[[ Take a lock on one of the independent servers of Redlock. The token's own counts as taken.
KEYS[1]      st:{l:x}:lock:<name>
ARGV[1]      token                  of the caller
ARGV[2]      ttl_ms                 how long it stands
Returns      {"taken"} | {"own"}: it was there, and stands no shorter now | {"held"}: another's
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local lock_key, token, ttl_ms = KEYS[1], ARGV[1], ARGV[2]
local owner = read_text(lock_key)
if owner == nil then
  corrupt('lock')
elseif owner and owner ~= token then
  return { 'held' }
end
-- Phase 2.
if owner then
  redis.call('PEXPIRE', lock_key, ttl_ms, 'GT')
  return { 'own' }
end
redis.call('SET', lock_key, token, 'PX', ttl_ms)
return { 'taken' }
