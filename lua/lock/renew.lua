#!lua
-- uses: _read _lock _lease
--[[ Make a lease last longer; never shorter.
KEYS[1]      st:{sale}:lock:<name>  or st:{l:x}:lock:<name>
KEYS[2..]    st:{sale}:rules        of a lock in a sale
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it; '' without one
ARGV[3]      token                  of the caller
ARGV[4]      ttl_ms                 how long it lasts from now on
Returns      {"renewed", now, fence, deadline} | {"not_owner", now}: another has it | {"lock_expired", now}: nobody
             has | {"unknown_sale"} | {"stale_generation"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local refusal = sale_refusal(KEYS[2], ARGV[2])
if refusal then
  return { refusal }
end
local now = now_ms(tonumber(ARGV[1]))
local lease = read_lease(KEYS[1])
if not is_live(lease, now) or lease.token ~= ARGV[3] then
  return not_mine(lease, now)
end
lease.deadline = math.max(lease.deadline, now + tonumber(ARGV[4]))
local text = format('%s:%d:%d%s', lease.token, lease.fence, lease.deadline, lease.met and ':met' or '')
-- Phase 2.
redis.call('SET', KEYS[1], text, 'PX', format('%d', lease.deadline - now + LOCK_CLEANED_MS))
return lease_answer('renewed', now, lease)
