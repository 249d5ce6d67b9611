-- reconfigure.lua  ARGV from, to, digest of to  ->  registered incarnation|false [quarantine] | wrong_quorum fingerprint | abstains
node.arity.reconfigure = 3
function node.reconfigure(_, from, to, digest)
  local metadata = node.metadata()
  local current = metadata.fingerprint
  if not current then
    return { 'abstains' }
  end
  if current ~= from and current ~= to then
    return { 'wrong_quorum', current }
  end
  redis.call('HSET', $METADATA, 'stamp', node.stamp_of(digest, metadata.incarnation or ''), 'fingerprint', to, 'new', '0')
  node.known_metadata = false
  return node.registered()
end
