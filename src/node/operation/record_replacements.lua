-- record_replacements.lua  ARGV from, to  ->  recorded text | wrong_quorum fingerprint | abstains
node.arity.record_replacements = 2
function node.record_replacements(_, from, to)
  if not node.metadata().fingerprint then
    return { 'abstains' }
  end
  node.admit()
  -- A record is no vote, so a node in quarantine records, too.
  local text = unpack(redis.call('HMGET', $METADATA, 'replacements')) or ''
  if text == from then
    text = to
  end
  -- The write of an unchanged text, too, shows that the server accepts writes.
  redis.call('HSET', $METADATA, 'replacements', text)
  return { 'recorded', text }
end
