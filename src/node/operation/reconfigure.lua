-- reconfigure.lua  ARGV from, to, digest of to, keeps_new 0|1  ->  registered incarnation|false [quarantine] | wrong_quorum fingerprint | abstains
node.arity.reconfigure = 4
function node.reconfigure(_, from, to, digest, keeps_new)
  local metadata = node.metadata()
  local current = metadata.fingerprint
  if not current then
    return { 'abstains' }
  end
  if current ~= from and current ~= to then
    return { 'wrong_quorum', current }
  end
  redis.call('HSET', $METADATA, 'stamp', node.stamp_of(digest, metadata.incarnation or ''), 'fingerprint', to, 'new', (keeps_new == '1' and metadata.is_new == '1') and '1' or '0')
  node.known_metadata = false
  return node.registered()
end
