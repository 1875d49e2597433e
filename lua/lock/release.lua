#!lua flags=allow-oom
-- uses: _read _lock _lease
--[[ End a lease. What is left says whose it was, so that a repeat is the same.
KEYS[1]      st:{sale}:lock:<name>  or st:{l:x}:lock:<name>
KEYS[2..]    st:{sale}:rules        of a lock in a sale
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it; '' without one
ARGV[3]      token                  of the caller
Returns      {"released" | "replayed", now} | {"not_owner", now}: another has it | {"lock_expired", now}: the lease ran
             out before | {"unknown_sale"} | {"stale_generation"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local REMEMBERED_MS = '360000' -- longer than any lease
local refusal = sale_refusal(KEYS[2], ARGV[2])
if refusal then
  return { refusal }
end
local now, token = now_ms(tonumber(ARGV[1])), ARGV[3]
local lease = read_lease(KEYS[1])
if lease and lease.released == token then
  return { 'replayed', format('%d', now) }
elseif not is_live(lease, now) or lease.token ~= token then
  return not_mine(lease, now)
end
-- Phase 2.
redis.call('SET', KEYS[1], 'released:' .. token, 'PX', REMEMBERED_MS)
return { 'released', format('%d', now) }
