-- downgrade.lua  KEYS resources, all of them shared  ARGV lease id, ttl, writer  ->  vote | held index lease_id remaining counter | tombstone | abstains
node.arity.downgrade = 3
function node.downgrade(resources, lease_id, ttl, writer)
  local seen = node.look_up_to_lock(resources, lease_id, writer)
  -- A tombstone shows that the writer was force-unlocked. A force-unlocked writer must not become a reader.
  if not seen.is_all_ours and node.has_any_tombstone(resources, writer) then
    return { 'tombstone' }
  end
  if seen.other then
    return node.held_by_another(seen)
  end
  local vote = node.grant(resources, lease_id, ttl, '0', seen, true)
  for i = 1, #resources do
    if seen.written[i] then
      -- The deletion follows the share, so that no other lease can lock in between.
      redis.call('HDEL', resources[i], writer)
      node.publish($CHANNEL .. braced(resources[i]))
      -- Wakes the first waiter if it is a reader. The answer does not depend on the wake.
      pcall(node.has_waiters, resources[i])
    end
  end
  return vote
end
