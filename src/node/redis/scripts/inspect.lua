-- inspect.lua  KEYS one resource  ->  inspected counter run|false fingerprint|false [owner holds remaining]
function node.inspect(resources)
  local held = node.holder(resources[1])
  local counter = redis.call('GET', node.named('redisson_lock_token:', resources[1]))
  counter = counter and node.integer(counter) or 0
  local fingerprint_of_record = node.record().fingerprint or false
  if not held then
    return { 'inspected', counter, node.run(), fingerprint_of_record }
  end
  return { 'inspected', counter, node.run(), fingerprint_of_record, held.owner, held.holds, held.ttl }
end
