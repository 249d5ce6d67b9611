-- line.lua  resource, waiter  ->  the line of a resource: who comes next, and who is called
local function leave_line(resource, waiter)
  call('ZREM', line_name(resource), waiter)
  call('ZREM', lives_name(resource), waiter)
end

-- For how many milliseconds a waiter keeps its place; nil if that is over.
local function life_left(resource, waiter)
  local ends = tonumber(call('ZSCORE', lives_name(resource), waiter) or 0)
  return ends >= milliseconds() and ends - milliseconds() or nil
end

-- Whose turn it is, nil if there is no line. It is called, unless it is the one who asks, which may be out of line for
-- having had a vote that it gave back: then its ticket speaks for it. Whoever does not listen is gone, and leaves.
local function next_in_line(resource, asking, ticket)
  while true do
    local first = call('ZRANGE', line_name(resource), 0, 0, 'WITHSCORES')
    local head = first[1]
    if not head or head == asking then
      return head
    end
    if ticket and ticket ~= '0' and tonumber(ticket) < tonumber(first[2]) then
      return asking
    end
    if life_left(resource, head) and call('PUBLISH', channel_name(turn_name(resource, head)), '0') > 0 then
      return head
    end
    leave_line(resource, head)
  end
end

-- A kindness to those who wait, nothing that is owed: without it they come by themselves.
local function call_next(resource)
  pcall(next_in_line, resource)
end
