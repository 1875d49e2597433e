#!lua flags=allow-oom
-- uses: _read
--[[ Register an endpoint, change its registration, or remove it, if it still is as the caller has read it.
KEYS[1]      st:webhooks
ARGV[1]      id                     of the endpoint
ARGV[2]      expected               the registration as the caller has read it, '' = there is none
ARGV[3]      registration           the new one, '' = remove it
ARGV[4]      webhooks_max           most that there may be
Returns      {"kept"} | {"lost"} (it is another one by now) | {"too_many_webhooks"}
Errors       CORRUPT what           the key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local webhooks_key = KEYS[1]
local id, expected, registration, webhooks_max = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local found = read('webhooks', 'HGET', webhooks_key, id) or ''
if found ~= expected then
  return { 'lost' }
elseif found == '' and registration ~= '' and redis.call('HLEN', webhooks_key) >= webhooks_max then
  return { 'too_many_webhooks' }
end
-- Phase 2.
if registration == '' then
  redis.call('HDEL', webhooks_key, id)
else
  redis.call('HSET', webhooks_key, id, registration)
end
return { 'kept' }
