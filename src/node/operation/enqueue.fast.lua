-- enqueue.fast.lua  KEYS one resource
--
-- Removes the first waiter from the queue, after the node has locked the resource for this waiter. `queued` are the
-- first three waiters. An error is ignored, because the resource is locked: the entry then stays until its ttl ends.
local waiter, woken = queued[1], call('GET', $LAST_WOKEN .. resource .. '}')
call('ZREM', $QUEUE .. resource .. '}', waiter)
call('ZREM', $ENTRY_TTL .. resource .. '}', waiter)
if type(woken) == 'string' and string.sub(woken, -#waiter - 1) == ' ' .. waiter then
  call('DEL', $LAST_WOKEN .. resource .. '}')
end
local channel = queued[3] and $CHANNEL .. $HEAD .. resource .. '}:' .. queued[3]
$FAST_PUBLISH
