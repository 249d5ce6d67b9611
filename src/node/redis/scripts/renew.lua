-- renew.lua  KEYS resources  ARGV owner, holds, ttl, token  ->  1: renewed, proves | renewed proves | healed [remaining] | held index owner remaining counter | gone
--
-- In as few steps as can be, what is asked for most: one resource, as its owner has left it, at a node with nothing out of
-- the ordinary, so that nothing but a ttl has to be written. Everything else is left to `renew_any`.
function node.renew(resources, owner, holds, ttl, token)
  local resource, record = resources[1], node.record()
  local is_plain = #resources == 1 and record.fingerprint == ARGV[1] and record.run == ARGV[5]
  is_plain = is_plain and ARGV[2] ~= 'per_vote' and not node.signs().is_quarantined
  is_plain = is_plain and not node.is_gone(resource, owner)
  is_plain = is_plain and redis.call('HLEN', resource) == 1 and redis.call('HMGET', resource, owner)[1] == holds
  local counter_name = is_plain and node.named('redisson_lock_token:', resource)
  -- A counter at the token, which lives for long enough, needs no number to be read or written.
  if is_plain and redis.call('GET', counter_name) == token then
    local number, floor = node.usable(token), node.usable(record.floor)
    if number and floor and floor <= number and redis.call('PTTL', counter_name) >= tonumber(ARGV[4]) then
      local remaining = redis.call('PTTL', resource)
      if remaining < tonumber(ttl) then
        redis.call('PEXPIRE', resource, ttl)
      end
      return 1
    end
  end
  return node.renew_any(resources, owner, holds, ttl, token)
end
