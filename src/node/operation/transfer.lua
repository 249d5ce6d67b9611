-- transfer.lua  KEYS resources  ARGV lease id, ttl, hint, from, proof|0  ->  vote | held index lease_id remaining counter | not_written_back counter | tombstone | abstains
node.arity.transfer = 5
function node.transfer(resources, lease_id, ttl, hint, from, proof)
  local seen = node.look_up_to_lock(resources, lease_id, from)
  -- A tombstone shows that `from` was unlocked, such as by force. Its resources must not go to another lease.
  if not seen.is_all_ours and node.has_any_tombstone(resources, from) then
    return { 'tombstone' }
  end
  if seen.other then
    return node.held_by_another(seen)
  end
  if proof ~= '0' and not seen.is_all_ours then
    -- The resources are held by `from`, and the node gave no vote above its token, so no third lease can have held
    -- them since.
    proof = node.integer(proof)
    local minimum_token = node.integer(node.metadata().minimum_token)
    local proves = not seen.is_any_missing and seen.largest <= proof and minimum_token <= proof
    for i = 1, #resources do
      proves = proves and seen.given[i]
    end
    if not proves then
      return { 'not_written_back', seen.largest }
    end
  end
  local vote = node.grant(resources, lease_id, ttl, hint, seen, true)
  for i = 1, #resources do
    if seen.given[i] then
      -- The deletion follows the lock, so that no other lease can lock in between.
      redis.call('HDEL', resources[i], from)
      if resources.is_shared and resources.is_shared[i] then
        node.publish($CHANNEL .. braced(resources[i]))
        -- Wakes the first waiter if it is a reader. The answer does not depend on the wake.
        pcall(node.has_waiters, resources[i])
      end
    end
  end
  return vote
end
