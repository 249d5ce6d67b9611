-- queue.lua  resource, waiter  ->  the wait queue of a resource: its first waiter, and wakes

-- Returns the waiter that was woken last, and the time of that waiter's first wake by the node's clock; nil if
-- no waiter of the queue was woken.
function node.last_woken(resource)
  local text = redis.call('GET', $LAST_WOKEN .. resource .. '}')
  local at, waiter = string.match(text or '', '^(%d+) (.*)$')
  return waiter, tonumber(at)
end

-- Removes a waiter from the queue. A waiter that becomes second gets a head notice, because the first two
-- waiters also subscribe to release notices. A failure to publish the notice is ignored.
function node.leave_queue(resource, waiter)
  local queue = $QUEUE .. resource .. '}'
  local rank = redis.call('ZRANK', queue, waiter)
  if not rank then
    return
  end
  redis.call('ZREM', queue, waiter)
  redis.call('ZREM', $ENTRY_TTL .. resource .. '}', waiter)
  if node.last_woken(resource) == waiter then
    redis.pcall('DEL', $LAST_WOKEN .. resource .. '}')
  end
  local next = rank < 2 and redis.call('ZRANGE', queue, '1', '1')[1]
  if next then
    node.publish($CHANNEL .. $HEAD .. resource .. '}:' .. next)
  end
end

-- Returns the rest of the ttl of a waiter's entry in milliseconds; nil if the entry has expired.
function node.entry_ttl_left(resource, waiter)
  local left = tonumber(redis.call('ZSCORE', $ENTRY_TTL .. resource .. '}', waiter) or 0) - node.milliseconds()
  return left >= 0 and left or nil
end

-- Wakes the first waiter if that waiter can lock the resource.
function node.wake_next(resource)
  local held = node.holder(resource)
  if held then
    node.require_functions('share')
  end
  if not held or node.readers(resource, held) then
    node.next_in_queue(resource, held)
  end
end

-- Wakes the waiter that may lock, and returns that waiter; nil if there is no queue. `requester` is the waiter
-- that sent the operation, if there is one.
--
--   * The requester is first: no wake is needed.
--   * The requester has left the queue, because the requester had a vote and rolled back: its arrival, compared
--     with the arrival of the first waiter, decides which of the two may lock.
--   * The first waiter is a writer, and readers hold the resource: there is no wake. If there is a
--     requester, the node publishes the head notice again.
--   * The first waiter has no subscription, or its entry has expired: the node removes the entry.
--   * The notice cannot be published: the first waiter keeps its place, and attempts by its fallback poll.
--   * The first waiter has not attempted within 3/4 of a hand-over after its wake: the second waiter
--     may lock, and from then on both are woken together.
function node.next_in_queue(resource, is_held, requester, arrival)
  while true do
    local queue = $QUEUE .. resource .. '}'
    local head, second = unpack(redis.call('ZRANGE', queue, '0', '1'))
    if not head or head == requester then
      return head
    end
    if arrival and arrival ~= '0' and tonumber(arrival) < tonumber(redis.call('ZSCORE', queue, head)) then
      return requester
    end
    local woken, at = node.last_woken(resource)
    local is_blocked = is_held and string.sub(head, -#$READER_SUFFIX) ~= $READER_SUFFIX
    local is_overdue = not is_blocked and woken == head and node.milliseconds() > at + math.ceil(node.hand_over * 3 / 4)
    if requester and (not second or second == requester) and is_overdue then
      return requester
    end
    local left = node.entry_ttl_left(resource, head)
    local topic = $CHANNEL .. (is_blocked and $HEAD or $WAKE) .. resource .. '}:' .. head
    local is_there = left and (is_blocked and not requester or node.publish(topic) ~= 0)
    if is_there and is_blocked then
      return head
    end
    if is_there then
      -- A waiter that was woken before keeps the time of its first wake.
      if woken ~= head then
        local now = node.format_integer(node.milliseconds())
        redis.pcall('SET', $LAST_WOKEN .. resource .. '}', now .. ' ' .. head, 'PX', node.max_ttl)
      end
      if second and is_overdue then
        node.publish($CHANNEL .. $WAKE .. resource .. '}:' .. second)
      end
      return head
    end
    node.leave_queue(resource, head)
  end
end
