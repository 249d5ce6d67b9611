-- enqueue.lua  KEYS resources  ARGV lease id, ttl, hint, waiter, arrival, entry ttl|0, index of the resource with the queue, enqueue only 0|1
--   ->  vote | with_waiters vote | queued index arrival rank patience [index lease_id remaining counter] | tombstone | abstains

-- Adds a member to a sorted set, and extends the ttl of the set. Returns whether the key was missing.
--
-- A first PEXPIRE precedes the command that creates the key, as in `write_lease_id`: the PEXPIRE has no
-- effect on a missing key, but fails if the user may not call it, so that no key without a ttl is left.
function node.set_with_ttl(name, score, waiter, entry_ttl)
  local left = redis.call('PTTL', name)
  if left < tonumber(entry_ttl) then
    redis.call('PEXPIRE', name, entry_ttl)
  end
  redis.call('ZADD', name, node.format_integer(score), waiter)
  if left < 0 then
    redis.call('PEXPIRE', name, entry_ttl)
  end
  return left < 0
end

-- Writes the entry of a waiter. Arrivals are times in microseconds, so that an arrival from another node
-- has about the same place in this queue. An arrival far ahead is limited, because every later waiter
-- gets a larger arrival.
function node.enter_queue(resource, waiter, arrival, entry_ttl)
  local now = node.milliseconds()
  if arrival == '0' then
    local last = redis.call('ZRANGE', $QUEUE .. resource .. '}', '-1', '-1', 'WITHSCORES')[2]
    arrival = math.max(now * 1000, (tonumber(last) or 0) + 1)
  else
    -- The waiter attempts after its wake, so the second waiter need not be woken in its place.
    if node.last_woken(resource) == waiter then
      redis.pcall('DEL', $LAST_WOKEN .. resource .. '}')
    end
    arrival = math.min(tonumber(arrival), (now + 3600000) * 1000)
  end
  if node.set_with_ttl($QUEUE .. resource .. '}', arrival, waiter, entry_ttl) then
    -- The queue is new. The record of the last woken waiter is of an earlier queue, which has expired.
    redis.pcall('DEL', $LAST_WOKEN .. resource .. '}')
  end
  node.set_with_ttl($ENTRY_TTL .. resource .. '}', now + tonumber(entry_ttl), waiter, entry_ttl)
  node.set_dirty()
  return arrival
end

-- Returns the rest of the ttl of the entry ahead of a waiter, and the number of waiters ahead. Without an
-- entry of the waiter, all waiters count as ahead. The first result is nil if no waiter is ahead.
function node.ttl_before(resource, waiter)
  while true do
    local queue = $QUEUE .. resource .. '}'
    local rank = redis.call('ZRANK', queue, waiter)
    local before = rank ~= 0 and redis.call('ZRANGE', queue, (rank or 0) - 1, (rank or 0) - 1)[1]
    local left = before and node.entry_ttl_left(resource, before)
    if left or not before then
      return left, rank or (before and redis.call('ZRANK', queue, before) + 1 or 0)
    end
    node.leave_queue(resource, before)
  end
end

-- The wait queue does not decide whether a resource is held or free. If the node cannot read or change the queue,
-- because the user may not use a command, a key has another type, or the server refuses writes:
--
--   * A free resource is locked, as if there were no waiters.
--   * The waiter of a held resource gets the arrival 0 without an entry, and then attempts by polls.
node.arity.enqueue = 8
function node.enqueue(resources, lease_id, ttl, hint, waiter, arrival, entry_ttl, index, enqueue_only)
  local seen = node.look_up_to_lock(resources, lease_id)
  if resources.is_shared then
    node.yield_to_writer(resources, seen)
  end
  index = tonumber(index)
  local resource = resources[index + 1]
  local is_free, head = not seen.other and enqueue_only == '0', nil
  if is_free and not seen.is_all_ours and node.flags().is_dirty then
    local is_read, first = pcall(node.next_in_queue, resource, seen.ttls[index + 1], waiter, arrival)
    head = is_read and first
  end
  if is_free and (not head or head == waiter) then
    local vote = node.grant(resources, lease_id, ttl, hint, seen)
    if head then
      -- An error is ignored, because the resource is locked: the entry then stays until its ttl ends.
      pcall(node.leave_queue, resource, waiter)
    end
    -- After a reader has locked, the next waiter is woken if it is a reader, because both may hold the
    -- resource at once.
    local is_shared = resources.is_shared and resources.is_shared[index + 1]
    local has_waiters = is_shared and node.has_waiters or node.has_queue
    return node.with_waiters(vote, has_waiters(resource))
  end
  local held = seen.other and node.held_by_another(seen)
  local own_arrival, is_entered = 0, entry_ttl ~= '0'
  if is_entered then
    is_entered, own_arrival = pcall(node.enter_queue, resource, waiter, arrival, entry_ttl)
    own_arrival = is_entered and own_arrival or 0
  end
  local is_read, left, rank = pcall(node.ttl_before, resource, waiter)
  if not is_read then
    left, rank = nil, 0
  end
  if not held then
    return { 'queued', index, own_arrival, rank, left or 0 }
  end
  return { 'queued', held[2], own_arrival, rank, left or held[4], unpack(held, 2, 5) }
end
