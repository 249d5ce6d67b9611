-- reconfigure.lua  ARGV from, to  ->  registered incarnation|false [quarantine] | wrong_quorum fingerprint | abstains
node.arity.reconfigure = 2
function node.reconfigure(_, from, to)
  local current = node.metadata().fingerprint
  if not current then
    return { 'abstains' }
  end
  if current ~= from and current ~= to then
    return { 'wrong_quorum', current }
  end
  redis.call('HSET', $METADATA, 'fingerprint', to, 'new', '0')
  node.known_metadata = false
  return node.registered()
end
