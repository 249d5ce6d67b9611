-- proclaim.lua  KEYS one resource  ARGV owner, term, number, value, since, ttl  ->  proclaimed | not_leader
node.arity.proclaim = 6
function node.proclaim(resources, owner, term, number, value, since, ttl)
  node.admit()
  local resource = resources[1]
  local held = node.holder(resource)
  if not held or held.owner ~= owner then
    return { 'not_leader' }
  end
  local name = $LEADER .. resource .. '}'
  local before = redis.call('HMGET', name, 'owner', 'number')
  local number_before = before[1] == owner and tonumber(before[2]) or -1
  if number_before > tonumber(number) then
    return { 'proclaimed' }
  end
  -- The PEXPIRE precedes, as for a lock: the HSET, which creates a key without a ttl, is reached only if
  -- the PEXPIRE that follows is permitted.
  redis.call('PEXPIRE', name, ttl)
  if number_before ~= tonumber(number) then
    redis.call('HSET', name, 'owner', owner, 'term', term, 'number', number, 'value', value, 'since', since)
    redis.call('PEXPIRE', name, ttl)
    node.publish($CHANNEL .. braced(name))
  end
  return { 'proclaimed' }
end
