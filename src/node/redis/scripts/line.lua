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

-- The first of the line, nil if there is none. It is called, unless it is the one who asks. Whoever does not listen is
-- gone, and leaves.
local function next_in_line(resource, asking)
  while true do
    local head = call('ZRANGE', line_name(resource), 0, 0)[1]
    if not head or head == asking then
      return head
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
