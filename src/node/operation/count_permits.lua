-- count_permits.lua  KEYS one semaphore  ARGV permits, ttl  ->  counted permits before|false
node.arity.count_permits = 2
function node.count_permits(resources, permits, ttl)
  -- The number is no vote, so a node in quarantine records it, too.
  node.admit()
  local name = $PERMITS .. resources[1] .. '}'
  local before = redis.call('GET', name)
  redis.call('SET', name, permits, 'PX', ttl)
  return { 'counted', before }
end
