-- writing.lua  ->  functions that write the data of the node, each key with a ttl

-- Formats an integer in two halves, because Lua rounds a large number to 14 digits, and the formats that do not
-- round are slow.
function node.format_integer(number)
  if number < 10000000 then
    return string.format('%d', number)
  end
  local high = math.floor(number / 10000000)
  return string.format('%d%07d', high, number - high * 10000000)
end

-- Sets a counter. A new ttl is 1.5 times the counter ttl, so that few uses have to extend it.
function node.count(name, value)
  if redis.call('PTTL', name) >= node.counter_ttl then
    redis.call('SET', name, node.format_integer(value), 'KEEPTTL')
  else
    redis.call('SET', name, node.format_integer(value), 'PX', math.floor(node.counter_ttl * 1.5))
  end
end

-- Sets a yield mark with this ttl. If `only_if` is `XX`, only an existing mark is set. The ttl is at most
-- `max_ttl`, because the key of a dirty node must outlive the mark.
function node.set_yield_mark(resource, ttl, only_if)
  local mark, lasts = $YIELD_MARK .. resource .. '}', math.max(math.min(ttl, node.max_ttl), 1)
  if not only_if then
    redis.call('SET', mark, '1', 'PX', lasts)
  elseif not redis.call('SET', mark, '1', 'PX', lasts, only_if) then
    return
  end
  node.set_dirty()
end

-- Deletes both marks of a resource. If the user may not delete them, they expire.
function node.delete_marks(resource)
  if node.flags().is_dirty then
    redis.pcall('DEL', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}')
  end
end

-- Writes the lease id into the keys of all exclusive resources, with these holds (nil: unchanged), and the counters
-- of all resources.
--
-- A script cannot be rolled back, so the order matters:
--
--   1. SET of the counters. A server without memory, a replica, or a server that cannot persist refuses
--      SET, and does so at the first write of a script only. SET sets the ttl itself.
--   2. PEXPIRE of the keys. A PEXPIRE of a missing key has no effect, but fails if the user may not call
--      PEXPIRE.
--   3. HSET, which creates a key without a ttl. HSET is reached only if the PEXPIRE that follows is permitted.
--
-- An error in between leaves a counter that is too high, or the keys of some resources until their ttl ends, as
-- after a lost reply. The unlock that follows every error deletes these keys.
function node.write_lease_id(resources, lease_id, seen, values, holds, ttl)
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
      redis.call('HSET', resources[i], lease_id, holds)
      if not seen.ttls[i] then
        redis.call('PEXPIRE', resources[i], ttl)
      end
    end
  end
end
