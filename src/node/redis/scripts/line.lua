-- line.lua  resource, waiter  ->  the line of a resource: who comes next, and who is called

function node.lives_name(resource)
  return 'redquorum:lives:{' .. resource .. '}'
end

function node.called_name(resource)
  return 'redquorum:called:{' .. resource .. '}'
end

-- Who was called last, and when that was for the first time, by the node's clock; nil if nobody was
-- that is in line.
function node.called(resource)
  local text = redis.call('GET', node.called_name(resource))
  local at, waiter = string.match(text or '', '^(%d+) (.*)$')
  return waiter, tonumber(at)
end

-- Takes a waiter out of the line. Whoever becomes one of the first two by that is told: these
-- listen for releases, too. What fails of that is nothing that is owed.
function node.leave_line(resource, waiter)
  local line = node.line_name(resource)
  local rank = redis.call('ZRANK', line, waiter)
  if not rank then
    return
  end
  redis.call('ZREM', line, waiter)
  redis.call('ZREM', node.lives_name(resource), waiter)
  if node.called(resource) == waiter then
    redis.pcall('DEL', node.called_name(resource))
  end
  local next = rank < 2 and redis.call('ZRANGE', line, 1, 1)[1]
  if next then
    redis.pcall('PUBLISH', 'redisson_lock__channel:redquorum:next:{' .. resource .. '}:' .. next, '0')
  end
end

-- For how many milliseconds a waiter keeps its place; nil if that is over.
function node.life_left(resource, waiter)
  local left = tonumber(redis.call('ZSCORE', node.lives_name(resource), waiter) or 0) - node.milliseconds()
  return left >= 0 and left or nil
end

-- Whose turn it is, nil if there is no line. It is called, unless it is the one who asks, which may
-- be out of line for having had a vote that it gave back: then its ticket speaks for it. The second
-- goes before a first that was called and has not come for most of the time for which newcomers let
-- it. Whoever does not listen is gone, and leaves.
function node.next_in_line(resource, asking, ticket)
  while true do
    local first = redis.call('ZRANGE', node.line_name(resource), 0, 1, 'WITHSCORES')
    local head, second = first[1], first[3]
    if not head or head == asking then
      return head
    end
    if ticket and ticket ~= '0' and tonumber(ticket) < tonumber(first[2]) then
      return asking
    end
    local called, at = node.called(resource)
    local is_overdue = called == head and node.milliseconds() > at + math.ceil(node.hand_over * 3 / 4)
    if asking and (not second or second == asking) and is_overdue then
      return asking
    end
    local turn = 'redisson_lock__channel:redquorum:turn:{' .. resource .. '}:' .. head
    if node.life_left(resource, head) and redis.call('PUBLISH', turn, '0') > 0 then
      -- Whoever was called before was so for the first time then.
      if called ~= head then
        local now = node.text_of(node.milliseconds())
        redis.pcall('SET', node.called_name(resource), now .. ' ' .. head, 'PX', node.max_ttl)
      end
      return head
    end
    node.leave_line(resource, head)
  end
end
