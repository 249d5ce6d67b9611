-- writing.lua  ->  the writes of a node, each of them with a ttl

-- A counter as text, in two halves: as one number, Lua would round it to 14 digits, or take long to
-- print it.
function node.format_integer(number)
  if number < 10000000 then
    return string.format('%d', number)
  end
  local high = math.floor(number / 10000000)
  return string.format('%d%07d', high, number - high * 10000000)
end

-- A counter lives for half as long again as it has to, so that few uses have to prolong it.
function node.count(name, value)
  if redis.call('PTTL', name) >= node.counter_ttl then
    redis.call('SET', name, node.format_integer(value), 'KEEPTTL')
  else
    redis.call('SET', name, node.format_integer(value), 'PX', math.floor(node.counter_ttl * 1.5))
  end
end

-- Makes newcomers yield to the waiters of a resource for this time; if `only_if` is `XX`, only where
-- newcomers yield already. No longer than the node stays dirty for certain.
function node.set_yield_mark(resource, ttl, only_if)
  local mark, lasts = $YIELD_MARK .. resource .. '}', math.max(math.min(ttl, node.max_ttl), 1)
  if not only_if then
    redis.call('SET', mark, '1', 'PX', lasts)
  elseif not redis.call('SET', mark, '1', 'PX', lasts, only_if) then
    return
  end
  node.set_dirty()
end

-- A mark that stays is over by itself, so nothing depends on whether it may be deleted.
function node.delete_marks(resource)
  if node.flags().is_dirty then
    redis.pcall('DEL', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}')
  end
end

-- Makes all resources the owner's but those that are shared, with these counters and holds (nil: as
-- they are).
--
-- A script cannot undo, so the order matters. The counters come first: SET is what a server without
-- memory, a replica or one that cannot persist refuses, it says so at a script's first write only,
-- and it brings its own ttl. Then PEXPIRE: on a key that is missing it does nothing, but fails if
-- the user may not call it. So the HSET that makes a key without a ttl is only reached where the
-- PEXPIRE after it is known to be allowed. What an error in between leaves is a counter that is too
-- high, or resources of which some are owned for the ttl: both as after a reply that was lost, and
-- the unlock that follows every error takes the latter back.
function node.write_owner(resources, owner, seen, values, holds, ttl)
  local is_shared = resources.is_shared
  for i = 1, #resources do
    node.count(seen.counters[i], values[i])
  end
  for i = 1, #resources do
    if not (is_shared and is_shared[i]) and (not seen.ttls[i] or seen.ttls[i] < tonumber(ttl)) then
      redis.call('PEXPIRE', resources[i], ttl)
    end
  end
  for i = 1, holds and #resources or 0 do
    if not (is_shared and is_shared[i]) then
      redis.call('HSET', resources[i], owner, holds)
      if not seen.ttls[i] then
        redis.call('PEXPIRE', resources[i], ttl)
      end
    end
  end
end
