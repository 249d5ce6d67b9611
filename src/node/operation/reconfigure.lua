-- reconfigure.lua  ARGV from, to, digest of to, keeps_new 0|1, begins_quarantine 0|1, quarantine, renewals after, record: ignores|requires|writes, text  ->  registered incarnation|false [quarantine] | wrong_quorum fingerprint | recorded text | abstains
node.arity.reconfigure = 9
function node.reconfigure(_, from, to, digest, keeps_new, begins_quarantine, lasts, renewals_after, record_step, record)
  local metadata = node.metadata()
  local current, incarnation = metadata.fingerprint, metadata.incarnation or ''
  if not current then
    return { 'abstains' }
  end
  if current ~= from and current ~= to then
    return { 'wrong_quorum', current }
  end
  if record_step == 'requires' and current == from then
    local text = unpack(redis.call('HMGET', $METADATA, 'replacements')) or ''
    if text ~= record then
      return { 'recorded', text }
    end
  end
  if begins_quarantine == '1' and current == from then
    -- A new server that stands in for a replaced one is like the replaced server after a loss of its data. The
    -- quarantine precedes the metadata, as at a registration. The clock of the replaced server may be ahead.
    incarnation = node.incarnation() or ''
    local minimum_token = node.raised_minimum_token(metadata, 2000000)
    node.begin_quarantine(lasts, renewals_after)
    redis.call('HSET', $METADATA, 'incarnation', incarnation, 'minimum_token', node.format_integer(minimum_token))
  end
  if record_step == 'writes' and current == from then
    redis.call('HSET', $METADATA, 'replacements', record)
  end
  redis.call('HSET', $METADATA, 'stamp', node.stamp_of(digest, incarnation), 'fingerprint', to, 'new', (keeps_new == '1' and metadata.is_new == '1') and '1' or '0')
  if begins_quarantine == '0' and keeps_new == '0' and current == from and from ~= to then
    -- A move opens the node: the records are about nodes of the configuration before. A full server refuses the first
    -- write of a script only if this write needs memory, so the deletion comes last.
    redis.call('HDEL', $METADATA, 'replacements')
  end
  node.known_metadata = false
  return node.registered()
end
