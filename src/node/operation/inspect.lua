-- inspect.lua  KEYS one resource  ARGV maximum number of readers  ->  inspected counter incarnation|false fingerprint|false quarantine|-1|false waiters first waiter|false [lease_id holds remaining [reader remaining] ...]
node.arity.inspect = 1
function node.inspect(resources, max_readers)
  local held = node.holder(resources[1])
  local counter = redis.call('GET', $COUNTER .. braced(resources[1]))
  counter = counter and node.integer(counter) or 0
  local fingerprint_of_metadata = node.metadata().fingerprint or false
  local abstains = node.abstention()
  abstains = abstains and (abstains[2] or -1) or false
  local waiters, first_waiter = 0, false
  if node.has_queue(resources[1]) then
    waiters = redis.call('ZCOUNT', $ENTRY_TTL .. resources[1] .. '}', node.format_integer(node.milliseconds()), '+inf')
    first_waiter = waiters > 0 and redis.call('ZRANGE', $QUEUE .. resources[1] .. '}', 0, 0)[1] or false
  end
  local reply = { 'inspected', counter, node.incarnation(), fingerprint_of_metadata, abstains, waiters, first_waiter }
  if not held then
    return reply
  end
  reply[8], reply[9], reply[10] = held.lease_id, held.holds, held.ttl
  if held.lease_id == $SHARED then
    node.require_functions('share')
    reply[9] = 0
  end
  if held.lease_id == $SHARED and node.readers(resources[1], held) then
    local readers, now = $READERS .. resources[1] .. '}', node.format_integer(node.milliseconds())
    reply[9] = redis.call('ZCOUNT', readers, now, '+inf')
    -- The readers that expire first, at most `max_readers`, because a resource may have any number of readers.
    local first = redis.call('ZRANGE', readers, now, '+inf', 'BYSCORE', 'LIMIT', 0, max_readers, 'WITHSCORES')
    for i = 1, #first, 2 do
      reply[#reply + 1] = first[i]
      reply[#reply + 1] = first[i + 1] - node.milliseconds()
    end
  end
  return reply
end
