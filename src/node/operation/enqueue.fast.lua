-- enqueue.fast.lua  KEYS one resource
--
-- Removes the first waiter, which got a vote, from the queue. `queued` are the first three waiters. The
-- resource is locked now, even if the entry stays until its ttl ends.
local waiter, woken = queued[1], call('GET', $LAST_WOKEN .. resource .. '}')
call('ZREM', $QUEUE .. resource .. '}', waiter)
call('ZREM', $ENTRY_TTL .. resource .. '}', waiter)
if type(woken) == 'string' and string.sub(woken, -#waiter - 1) == ' ' .. waiter then
  call('DEL', $LAST_WOKEN .. resource .. '}')
end
local channel = queued[3] and $CHANNEL .. $HEAD .. resource .. '}:' .. queued[3]
$FAST_PUBLISH
