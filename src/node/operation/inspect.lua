-- inspect.lua  KEYS one resource  ->  inspected counter incarnation|false fingerprint|false abstains for|-1|false [owner holds remaining]
node.arity.inspect = 0
function node.inspect(resources)
  local held = node.holder(resources[1])
  local counter = redis.call('GET', $COUNTER .. braced(resources[1]))
  counter = counter and node.integer(counter) or 0
  local fingerprint_of_metadata = node.metadata().fingerprint or false
  local abstains = node.abstention()
  abstains = abstains and (abstains[2] or -1) or false
  if not held then
    return { 'inspected', counter, node.incarnation(), fingerprint_of_metadata, abstains }
  end
  return { 'inspected', counter, node.incarnation(), fingerprint_of_metadata, abstains, held.owner, held.holds, held.ttl }
end
