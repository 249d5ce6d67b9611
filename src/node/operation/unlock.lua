-- unlock.lua  KEYS resources  ARGV lease id, kind (notify 0|1; tombstone 0 never|1 if a key is missing|2
--   always; 1 if the queue node has waiters; `:` and the rest of the minimum hold)  ->  deleted | with_waiters deleted

-- Renews or deletes the yield mark of a resource that is free now. A writer mark stays, because the woken
-- writer attempts now. `waiters_known`: the queue node has reported waiters.
function node.pass_yield_mark(resource, notifies, waiters_known)
  if not (waiters_known or node.flags().is_dirty) then
    return
  elseif not notifies then
    redis.pcall('DEL', $YIELD_MARK .. resource .. '}')
  elseif waiters_known then
    node.set_yield_mark(resource, node.hand_over)
  else
    node.set_yield_mark(resource, node.hand_over, 'XX')
  end
end

-- Keeps the key of a lease for at most `rest`, if the lease has the key. Returns 1 if so, and otherwise 0. The ttl is
-- only shortened, so an unlock that arrives twice does not extend the hold.
function node.shorten(resource, lease_id, rest)
  if not redis.call('HMGET', resource, lease_id)[1] then
    return 0
  end
  local ttl = redis.call('PTTL', resource)
  if ttl < 0 or ttl > tonumber(rest) then
    redis.call('PEXPIRE', resource, rest)
  end
  return 1
end

node.arity.unlock_any = 2
function node.unlock_any(resources, lease_id, kind, is_removed)
  local notify, tombstone, waiters_known, rest = string.match(kind, '^(%d)(%d)(1?):?(%d*)$')
  -- If one step fails, all further steps are executed nevertheless, and the first problem is the answer. The
  -- deletions precede all other writes, because a server without memory refuses any other first write of a script.
  local problem, deleted, has_waiters = nil, 0, false
  for i = 1, #resources do
    local resource = resources[i]
    local reply, is_free = 0, false
    if resources.is_shared and resources.is_shared[i] then
      local is_done, was_reader
      is_done, was_reader, is_free = pcall(node.unshare, resource, lease_id, is_removed)
      problem = problem or (not is_done and was_reader)
      deleted = deleted + (is_done and was_reader or 0)
    elseif rest ~= '' then
      local is_done, kept = pcall(node.shorten, resource, lease_id, rest)
      problem = problem or (not is_done and kept)
      deleted = deleted + (is_done and kept or 0)
    else
      -- A lease id is unique, so a field of this name is the lock of the lease, whatever other fields the
      -- key has.
      reply = redis.pcall('HDEL', resource, lease_id)
      is_free = reply == 1
      if is_free then
        deleted = deleted + 1
      elseif reply ~= 0 then
        -- A replica refuses to delete even a missing field. If the field is missing, the unlock has no effect to
        -- deliver, so this refusal is no problem.
        local field = redis.pcall('HMGET', resource, lease_id)
        reply = (field.err or field[1]) and reply
      end
    end
    if is_free then
      -- If waiters are known, newcomers yield to the waiters for a hand-over. An error is ignored.
      pcall(node.pass_yield_mark, resource, notify == '1', waiters_known == '1')
      if notify == '1' then
        node.publish($CHANNEL .. braced(resource))
      end
    end
    problem = problem or (type(reply) == 'table' and reply)
    -- The first waiter is woken even if this node had no key, because only other nodes may have had the key.
    local is_done, found = pcall(node.has_waiters, resource)
    has_waiters = has_waiters or (is_done and found)
  end
  local is_left = tombstone == '2' or (tombstone == '1' and deleted < #resources)
  for i = 1, is_left and #resources or 0 do
    local is_done, answer = pcall(node.write_tombstone, resources[i], lease_id)
    problem = problem or (not is_done and answer)
  end
  if problem then
    error(problem, 0)
  end
  return node.with_waiters(deleted, has_waiters)
end
