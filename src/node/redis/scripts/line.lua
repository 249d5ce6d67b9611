-- line.lua  resource, waiter  ->  the line of a resource: who comes next, and who is called

-- Always in braces: `a` and `{a}` have two lines.
function node.line_name(resource)
  return 'redquorum:line:{' .. resource .. '}'
end

function node.lives_name(resource)
  return 'redquorum:lives:{' .. resource .. '}'
end

function node.leave_line(resource, waiter)
  redis.call('ZREM', node.line_name(resource), waiter)
  redis.call('ZREM', node.lives_name(resource), waiter)
end

-- For how many milliseconds a waiter keeps its place; nil if that is over.
function node.life_left(resource, waiter)
  local left = tonumber(redis.call('ZSCORE', node.lives_name(resource), waiter) or 0) - node.milliseconds()
  return left >= 0 and left or nil
end

-- Whose turn it is, nil if there is no line. It is called, unless it is the one who asks, which may be out of line for
-- having had a vote that it gave back: then its ticket speaks for it. Whoever does not listen is gone, and leaves.
function node.next_in_line(resource, asking, ticket)
  while true do
    local first = redis.call('ZRANGE', node.line_name(resource), 0, 0, 'WITHSCORES')
    local head = first[1]
    if not head or head == asking then
      return head
    end
    if ticket and ticket ~= '0' and tonumber(ticket) < tonumber(first[2]) then
      return asking
    end
    local turn = 'redisson_lock__channel:redquorum:turn:{' .. resource .. '}:' .. head
    if node.life_left(resource, head) and redis.call('PUBLISH', turn, '0') > 0 then
      return head
    end
    node.leave_line(resource, head)
  end
end
