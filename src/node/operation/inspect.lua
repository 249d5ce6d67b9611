-- inspect.lua  KEYS one resource  ARGV how many readers are told, at most  ->  inspected counter incarnation|false fingerprint|false abstains for|-1|false [owner holds remaining [reader remaining] ...]
node.arity.inspect = 1
function node.inspect(resources, most_readers)
  local held = node.holder(resources[1])
  local counter = redis.call('GET', $COUNTER .. braced(resources[1]))
  counter = counter and node.integer(counter) or 0
  local fingerprint_of_metadata = node.metadata().fingerprint or false
  local abstains = node.abstention()
  abstains = abstains and (abstains[2] or -1) or false
  if not held then
    return { 'inspected', counter, node.incarnation(), fingerprint_of_metadata, abstains }
  end
  local said = { 'inspected', counter, node.incarnation(), fingerprint_of_metadata, abstains, held.owner, held.holds, held.ttl }
  if held.owner == $SHARED then
    node.need('share')
    said[7] = 0
  end
  if held.owner == $SHARED and node.readers(resources[1], held) then
    local readers, now = $READERS .. resources[1] .. '}', node.text_of(node.milliseconds())
    said[7] = redis.call('ZCOUNT', readers, now, '+inf')
    -- The first who end, and no more than these: there may be very many.
    local first = redis.call('ZRANGE', readers, now, '+inf', 'BYSCORE', 'LIMIT', 0, most_readers, 'WITHSCORES')
    for i = 1, #first, 2 do
      said[#said + 1] = first[i]
      said[#said + 1] = first[i + 1] - node.milliseconds()
    end
  end
  return said
end
