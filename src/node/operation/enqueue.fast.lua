-- enqueue.fast.lua  KEYS one resource  ->  1, or the error of a command
--
-- Removes the first waiter from the queue, because the node has given its vote to this waiter. `queued` are the
-- first three waiters. The third becomes second, and gets a head notice.
local waiter, woken = queued[1], call('GET', $LAST_WOKEN .. resource .. '}')
local left = call('ZREM', $QUEUE .. resource .. '}', waiter)
local ended = call('ZREM', $ENTRY_TTL .. resource .. '}', waiter)
if type(woken) == 'string' and string.sub(woken, -#waiter - 1) == ' ' .. waiter then
  call('DEL', $LAST_WOKEN .. resource .. '}')
end
if queued[3] then
  call('PUBLISH', $CHANNEL .. $HEAD .. resource .. '}:' .. queued[3], '0')
end
done = type(left) == 'table' and left or type(ended) == 'table' and ended or 1
