#!lua flags=no-writes
-- uses: _read _lock _lease
--[[ Show a lock.
KEYS[1]      st:{sale}:lock:<name>  or st:{l:x}:lock:<name>
KEYS[2..]    st:{sale}:rules        of a lock in a sale
ARGV[1]      clock_offset_ms        0 outside tests
ARGV[2]      generation             of the sale, as the caller knows it; '' without one
Returns      {"lock_held", now, fence, deadline} | {"free", now} | {"unknown_sale"} | {"stale_generation"}
Errors       CORRUPT what           a key holds what no script wrote
Writes       nothing. Cost O(1). ]]
local refusal = sale_refusal(KEYS[2], ARGV[2])
if refusal then
  return { refusal }
end
local now = now_ms(tonumber(ARGV[1]))
local lease = read_lease(KEYS[1])
if is_live(lease, now) then
  return lease_answer('lock_held', now, lease)
end
return { 'free', format('%d', now) }
