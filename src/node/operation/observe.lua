-- observe.lua  KEYS one resource  ->  observed lease_id|false remaining|false, and lease_id term number value since, each or false
node.arity.observe = 0
function node.observe(resources)
  local held = node.holder(resources[1])
  local proclamation = redis.call('HMGET', $LEADER .. resources[1] .. '}', 'owner', 'term', 'number', 'value', 'since')
  return { 'observed', held and held.lease_id, held and held.ttl, unpack(proclamation) }
end
