#!lua flags=allow-oom
-- uses: _read
--[[ Remove consumers of a group, of a sale or a bucket, that are long idle and have nothing left: dead processes.
KEYS[1]      st:{sale}:events
ARGV[1]      group
ARGV[2]      idle_ms                by the server's own clock: so long it has not asked
Returns      {"dismissed", number} | {"no_group"}
Errors       CORRUPT what           the key is not a stream
Writes       after the last check. Cost O(consumers). A consumer that has entries keeps them: somebody claims them. ]]
local events_key, group, idle_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])

local function field_of(list, name)
  for n = 1, #list, 2 do
    if list[n] == name then
      return list[n + 1]
    end
  end
end

read('events', 'XLEN', events_key)
local consumers = redis.pcall('XINFO', 'CONSUMERS', events_key, group)
if consumers.err then
  return { 'no_group' }
end
local idle = {}
for _, consumer in ipairs(consumers) do
  if field_of(consumer, 'pending') == 0 and field_of(consumer, 'idle') >= idle_ms then
    idle[#idle + 1] = field_of(consumer, 'name')
  end
end
-- Phase 2.
for _, name in ipairs(idle) do
  redis.call('XGROUP', 'DELCONSUMER', events_key, group, name)
end
return { 'dismissed', format('%d', #idle) }
