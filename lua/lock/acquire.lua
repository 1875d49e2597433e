#!lua
-- uses: _read _lock _lease
--[[ Take a lock. The same token has one lease: a repeat meets its own.
KEYS[1..2]   st:{sale}:lock:<name> fence  or st:{l:x}:lock:<name> fence
KEYS[3..]    st:{sale}:rules        of a lock in a sale
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it; '' without one
ARGV[3]      token                  of the caller
ARGV[4]      ttl_ms                 how long the lease lasts
Returns      {"acquired" | "replayed", now, fence, deadline} | {"lock_held", now, fence, deadline} of another's |
             {"lock_expired", now}: the token's lease is over | {"unknown_sale"} | {"stale_generation"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       after the last check. Cost O(1). ]]
local lock_key, fence_key, token = KEYS[1], KEYS[2], ARGV[3]
local refusal = sale_refusal(KEYS[3], ARGV[2])
if refusal then
  return { refusal }
end
local now, ttl_ms = now_ms(tonumber(ARGV[1])), tonumber(ARGV[4])
local lease = read_lease(lock_key)
local counter = read_text(fence_key)
if counter == nil then
  corrupt('fence')
end
counter = counter and whole(counter, 'fence')
if lease and (lease.token == token or lease.released == token) then
  if not is_live(lease, now) then
    return { 'lock_expired', format('%d', now) }
  end
  -- Phase 2. Whoever took it and is gone must not take it from the one who has met it (`abandon`).
  if not lease.met then
    redis.call('SET', lock_key, lease.text .. ':met', 'KEEPTTL')
  end
  return lease_answer('replayed', now, lease)
elseif is_live(lease, now) then
  return lease_answer('lock_held', now, lease)
end
-- A counter begins at the time, so it is larger than any of a sale of this name before.
lease = { token = token, fence = counter and counter + 1 or now, deadline = now + ttl_ms }
local text = format('%s:%d:%d', token, lease.fence, lease.deadline)
-- Phase 2.
redis.call('SET', fence_key, format('%d', lease.fence))
redis.call('SET', lock_key, text, 'PX', format('%d', ttl_ms + LOCK_CLEANED_MS))
return lease_answer('acquired', now, lease)
