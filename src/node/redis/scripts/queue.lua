-- queue.lua  resource, waiter  ->  the wait queue of a resource: who comes next, and who is woken

-- The waiter that was woken last, and when it was for the first time, by the node's clock; nil if
-- no queued waiter was.
function node.woken(resource)
  local text = redis.call('GET', $LAST_WOKEN .. resource .. '}')
  local at, waiter = string.match(text or '', '^(%d+) (.*)$')
  return waiter, tonumber(at)
end

-- Takes a waiter out of the queue. A waiter that becomes one of the first two by that is told:
-- these listen for releases, too. The notice is best effort.
function node.leave_queue(resource, waiter)
  local queue = $QUEUE .. resource .. '}'
  local rank = redis.call('ZRANK', queue, waiter)
  if not rank then
    return
  end
  redis.call('ZREM', queue, waiter)
  redis.call('ZREM', $ENTRY_TTL .. resource .. '}', waiter)
  if node.woken(resource) == waiter then
    redis.pcall('DEL', $LAST_WOKEN .. resource .. '}')
  end
  local next = rank < 2 and redis.call('ZRANGE', queue, '1', '1')[1]
  if next then
    redis.pcall('PUBLISH', $CHANNEL .. $HEAD .. resource .. '}:' .. next, '0')
  end
end

-- For how many milliseconds a waiter's entry is kept; nil if its ttl is over.
function node.entry_ttl_left(resource, waiter)
  local left = tonumber(redis.call('ZSCORE', $ENTRY_TTL .. resource .. '}', waiter) or 0) - node.milliseconds()
  return left >= 0 and left or nil
end

-- Wakes the first in the queue if it can have the resource.
function node.wake_next(resource)
  local held = node.holder(resource)
  if held then
    node.require_functions('share')
  end
  if not held or node.readers(resource, held) then
    node.next_in_queue(resource, held)
  end
end

-- The waiter whose turn it is, nil if there is no queue. It is woken, unless it is the one that
-- asks, or waits for others to stop reading what is held: then it is told again that it is one of the
-- first. The one that asks may be out of the queue because it had a vote and gave it back: then its
-- arrival counts. A waiter that does not listen is gone, and is taken out. The second goes before a
-- first that was woken and has not come for most of a hand-over, and is woken together with it from
-- then on.
function node.next_in_queue(resource, is_held, asking, arrival)
  while true do
    local queue = $QUEUE .. resource .. '}'
    local head, second = unpack(redis.call('ZRANGE', queue, '0', '1'))
    if not head or head == asking then
      return head
    end
    if arrival and arrival ~= '0' and tonumber(arrival) < tonumber(redis.call('ZSCORE', queue, head)) then
      return asking
    end
    local woken, at = node.woken(resource)
    local is_blocked = is_held and string.sub(head, -#$READER_SUFFIX) ~= $READER_SUFFIX
    local is_overdue = not is_blocked and woken == head and node.milliseconds() > at + math.ceil(node.hand_over * 3 / 4)
    if asking and (not second or second == asking) and is_overdue then
      return asking
    end
    local left = node.entry_ttl_left(resource, head)
    local topic = $CHANNEL .. (is_blocked and $HEAD or $WAKE) .. resource .. '}:' .. head
    local is_there = left and (is_blocked and not asking or redis.call('PUBLISH', topic, '0') > 0)
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
        redis.pcall('PUBLISH', $CHANNEL .. $WAKE .. resource .. '}:' .. second, '0')
      end
      return head
    end
    node.leave_queue(resource, head)
  end
end
