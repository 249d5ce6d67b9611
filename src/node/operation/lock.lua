-- lock.lua  KEYS resources  ARGV lease id, ttl, hint  ->  vote | held index lease_id remaining counter
--   | queued index 0 rank 0 [index lease_id remaining counter] | tombstone | abstains

-- Locks resources that no other lease holds, ignoring queues and marks. Returns the vote. Deletes the marks of
-- exclusive resources, unless the caller has checked that there is no mark (`is_unmarked`).
function node.grant(resources, lease_id, ttl, hint, seen, is_unmarked)
  -- A lock that arrives twice gets the same vote twice, and a reader gets the vote of the readers that the
  -- reader joins. A vote is not repeated if the node does not remember the vote, or if the vote is below the
  -- minimum token.
  local minimum_token = node.integer(node.metadata().minimum_token)
  local vote, is_given = seen.largest, seen.is_all_ours
  if seen.readers then
    vote, is_given = node.given_vote(resources, seen)
  end
  local is_repeated = is_given and not seen.is_any_missing and vote >= minimum_token
  if not is_repeated then
    local below = math.max(node.largest_or_start(seen), vote, minimum_token)
    if hint ~= '0' then
      -- A hint moves the counter at most an hour ahead.
      below = math.max(below, math.min(tonumber(hint) - 1, node.start() + 3600 * 1000000))
    end
    if below >= node.largest_counter then
      node.refuse({ 'counter', node.format_integer(below) })
    end
    vote = below + 1
  end
  local values, is_shared = {}, resources.is_shared
  for i = 1, #resources do
    values[i] = is_shared and math.max(seen.found[i] or 0, vote) or vote
  end
  node.write_lease_id(resources, lease_id, seen, values, not is_repeated and '1' or nil, ttl)
  for i = 1, (is_shared or not is_unmarked) and #resources or 0 do
    if is_shared and is_shared[i] then
      node.share(resources[i], lease_id, seen.readers[i], vote, ttl)
    elseif not is_unmarked then
      node.delete_marks(resources[i])
    end
  end
  return vote
end

-- Returns the resource to whose waiters a newcomer must yield, as an index and a rank: the first resource with
-- waiters, and 1. If no resource has waiters and all resources are free: the first resource with a mark, and 0.
function node.yield_to_waiters(resources, seen)
  local marked
  for i = 1, node.flags().is_dirty and #resources or 0 do
    local resource = resources[i]
    local yield_mark, writer_mark = $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}'
    if redis.call('EXISTS', $QUEUE .. resource .. '}', yield_mark, writer_mark) > 0 then
      if node.has_waiters(resource) then
        return i - 1, 1
      end
      if not marked and not seen.other and redis.call('EXISTS', yield_mark, writer_mark) > 0 then
        marked = i - 1
      end
    end
  end
  return marked, 0
end

-- Locks for a newcomer, which yields to waiters.
node.arity.lock_any = 3
function node.lock_any(resources, lease_id, ttl, hint, will_not_wait)
  local seen = node.look_up_to_lock(resources, lease_id)
  if seen.is_all_ours then
    return node.grant(resources, lease_id, ttl, hint, seen)
  end
  local first, rank = node.yield_to_waiters(resources, seen)
  local held = seen.other and node.held_by_another(seen)
  if first then
    return { 'queued', first, 0, rank, 0, unpack(held or {}, 2, held and 5 or 1) }
  end
  if held then
    -- A refused client will wait, so newcomers must yield. The answer does not depend on the mark, which
    -- the user may not be allowed to write.
    if held[4] > 0 and not will_not_wait then
      pcall(node.set_yield_mark, resources[held[2] + 1], held[4])
    end
    return held
  end
  return node.grant(resources, lease_id, ttl, hint, seen, true)
end

-- Locks for a woken waiter.
node.arity.take = 3
function node.take(resources, lease_id, ttl, hint, will_not_wait)
  local seen = node.look_up_to_lock(resources, lease_id)
  -- A writer mark is for the resource whose queue node woke the writer. For a group, that resource may be any of
  -- the resources, so only a lock of one resource sets a writer mark.
  local is_one = #resources == 1 and not resources.is_shared
  if not will_not_wait and is_one and seen.other and seen.other.lease_id == $SHARED and seen.other.remaining > 0 then
    node.require_functions('share')
    -- The answer does not depend on the mark.
    pcall(node.set_writer_mark, resources[seen.other.index + 1], seen.other.remaining)
  elseif resources.is_shared then
    node.yield_to_writer(resources, seen)
  end
  return seen.other and node.held_by_another(seen) or node.grant(resources, lease_id, ttl, hint, seen)
end

-- The same for clients that will not wait after a refusal, so that no mark is set.
node.arity.try_any = 3
function node.try_any(resources, lease_id, ttl, hint)
  return node.lock_any(resources, lease_id, ttl, hint, true)
end

node.arity.try_take = 3
function node.try_take(resources, lease_id, ttl, hint)
  return node.take(resources, lease_id, ttl, hint, true)
end
