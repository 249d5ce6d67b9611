-- downgrade.lua  KEYS resources, all of them shared  ARGV owner, ttl, writer  ->  vote | held index owner remaining counter | tombstone | abstains
node.arity.downgrade = 3
function node.downgrade(resources, owner, ttl, writer)
  local seen = node.look_up_to_lock(resources, owner, writer)
  -- A writer whose lock was force-unlocked must not become a reader.
  if not seen.is_all_ours and node.has_any_tombstone(resources, writer) then
    return { 'tombstone' }
  end
  if seen.other then
    return node.held_by_another(seen)
  end
  local vote = node.grant(resources, owner, ttl, '0', seen, true)
  for i = 1, #resources do
    if seen.written[i] then
      -- The deletion follows the share, so that no other owner can lock in between.
      redis.call('HDEL', resources[i], writer)
      node.publish($CHANNEL .. braced(resources[i]))
      pcall(node.has_waiters, resources[i])
    end
  end
  return vote
end
