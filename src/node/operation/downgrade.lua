-- downgrade.lua  KEYS one resource  ARGV owner, ttl, writer  ->  vote | held index owner remaining counter | gone
node.arity.downgrade = 3
function node.downgrade(resources, owner, ttl, writer)
  local seen, resource = node.look_up_to_lock(resources, owner), resources[1]
  -- A writer that was unlocked by force must not read on.
  if not seen.is_all_ours and node.is_gone(resource, writer) then
    return { 'gone' }
  end
  local is_written = seen.other and seen.other.owner == writer
  if seen.other and not is_written then
    return node.held_by_another(seen)
  end
  local vote = node.grant(resources, owner, ttl, '0', seen, true)
  if is_written then
    -- Not before the readers have the resource: nobody else may have it in between.
    redis.call('HDEL', resource, writer)
    redis.pcall('PUBLISH', $CHANNEL .. braced(resource), '0')
    node.need('wake_next')
    pcall(node.wake_next, resource)
  end
  return vote
end
