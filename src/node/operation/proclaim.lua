-- proclaim.lua  KEYS one resource  ARGV lease id, term, number, value, since, ttl  ->  proclaimed | not_leader
node.arity.proclaim = 6
function node.proclaim(resources, lease_id, term, number, value, since, ttl)
  node.admit()
  local resource = resources[1]
  local held = node.holder(resource)
  if not held or held.lease_id ~= lease_id then
    return { 'not_leader' }
  end
  local name = $LEADER .. resource .. '}'
  local before = redis.call('HMGET', name, 'owner', 'number')
  local number_before = before[1] == lease_id and tonumber(before[2]) or -1
  if number_before > tonumber(number) then
    return { 'proclaimed' }
  end
  -- A first PEXPIRE precedes the HSET, as in `write_lease_id`. The HSET creates a key without a ttl, and is
  -- reached only if the PEXPIRE that follows is permitted.
  redis.call('PEXPIRE', name, ttl)
  if number_before ~= tonumber(number) then
    redis.call('HSET', name, 'owner', lease_id, 'term', term, 'number', number, 'value', value, 'since', since)
    redis.call('PEXPIRE', name, ttl)
    redis.call('PUBLISH', $CHANNEL .. braced(name), '0')
  end
  return { 'proclaimed' }
end
