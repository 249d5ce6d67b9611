-- reading.lua  ->  functions that read the data of the node

-- Parses a counter; nil if the text is not a counter. Lua also accepts ' 7', '7e0' and '0x7' as numbers, but they
-- are not counters. Nor is a number so large that doubles skip integers.
function node.parse_counter(text)
  local number = (text == '0' or string.find(text, '^[1-9]%d*$')) and tonumber(text)
  return number and number <= node.largest_counter and number or nil
end

function node.metadata()
  if not node.known_metadata then
    local stamp, incarnation, minimum_token, fingerprint, is_new = unpack(redis.call('HMGET', $METADATA, 'stamp', 'incarnation', 'minimum_token', 'fingerprint', 'new'))
    local is_known = stamp or incarnation or minimum_token or fingerprint
    node.known_metadata = { stamp = stamp or '', incarnation = incarnation, minimum_token = minimum_token or '0', fingerprint = is_known and (fingerprint or ''), is_new = is_new }
  end
  return node.known_metadata
end

-- Returns whether the node is in quarantine, and whether the node is dirty: a tombstone, a wait queue or a mark
-- may exist. One command reads both flags.
function node.flags()
  if not node.known_flags then
    -- The quarantine counts 2 and the dirty flag counts 1, so the sum shows both.
    local found = redis.call('EXISTS', $DIRTY, $QUARANTINE, $QUARANTINE)
    node.known_flags = { is_quarantined = found >= 2, is_dirty = found % 2 == 1 }
  end
  return node.known_flags
end

function node.has_tombstone(resource, lease_id)
  local tombstone = node.flags().is_dirty and $TOMBSTONE .. braced(resource) .. ':' .. lease_id
  return tombstone and redis.call('EXISTS', tombstone) == 1
end

-- Writes the key of a dirty node, which outlives all tombstones, wait queues and marks: without this
-- key, no operation checks for any of them. The ttl is so long that few operations have to extend it.
function node.set_dirty()
  if redis.call('PTTL', $DIRTY) < node.max_ttl then
    redis.call('SET', $DIRTY, '1', 'PX', 2 * node.max_ttl)
  end
  node.known_flags = false
end

function node.write_tombstone(resource, lease_id)
  redis.call('SET', $TOMBSTONE .. braced(resource) .. ':' .. lease_id, '1', 'PX', node.max_ttl)
  node.set_dirty()
end

function node.has_queue(resource)
  return node.flags().is_dirty and redis.call('EXISTS', $QUEUE .. resource .. '}') == 1
end

-- Returns whether the resource has waiters. Wakes the first waiter if that waiter can lock the resource. A failure
-- of the wake is ignored, because the first waiter also attempts by its fallback poll.
function node.has_waiters(resource)
  local queue = $QUEUE .. resource .. '}'
  -- The readers count 1, the resource 2, the queue 4.
  local found = node.flags().is_dirty and redis.call('EXISTS', queue, queue, queue, queue, resource, resource, $READERS .. resource .. '}') or 0
  -- No queue, or a queue for a resource with a writer: no waiter can lock.
  if found < 4 or found == 6 then
    return found == 6
  end
  node.require_functions('wake_next')
  pcall(found < 6 and node.next_in_queue or node.wake_next, resource)
  return node.has_queue(resource)
end

-- Marks an answer as one of a node with waiters, if `has_waiters`.
function node.with_waiters(answer, has_waiters)
  return has_waiters and { 'with_waiters', answer } or answer
end

-- Ends the present operation with this answer. The next operation of the call follows. An error of a command ends
-- the operation in the same way.
function node.refuse(answer)
  error(answer, 0)
end

-- Parses a counter. If the text is not a counter, the operation ends with an answer that shows the text.
function node.integer(text)
  return node.parse_counter(text) or node.refuse({ 'counter', string.sub(text, 1, 64) })
end

function node.time()
  node.known_time = node.known_time or redis.call('TIME')
  return node.known_time
end

function node.milliseconds()
  local seconds, microseconds = unpack(node.time())
  return seconds * 1000 + math.floor(microseconds / 1000)
end

-- Returns the value of a missing counter: the time in microseconds, in whole seconds.
function node.start()
  return node.time()[1] * 1000000
end

function node.has_any_tombstone(resources, lease_id)
  for i = 1, #resources do
    if node.has_tombstone(resources[i], lease_id) then
      return true
    end
  end
  return false
end

-- Returns the holder of a resource; false if the resource is free. The lease id is false in two cases:
--
--   * The key has several fields: another library has the lock.
--   * The field is long: the key may have the data of an application, and the answer would have any length.
function node.holder(resource)
  local fields = redis.call('HLEN', resource)
  if fields == 0 then
    return false
  end
  local ttl, field = redis.call('PTTL', resource), fields == 1 and redis.call('HGETALL', resource) or {}
  local lease_id, holds = field[1] or false, field[2] or '0'
  return { lease_id = lease_id and #lease_id <= 128 and lease_id, holds = #holds <= 16 and holds or '0', ttl = ttl, text = holds }
end

-- Returns whether a hash is a lock of this library or of Redisson. The field of a lock is `<uuid>:<number>`, in
-- this library after a label, and its value is the number of holds; or the field is that of readers. Any other
-- hash may have the data of an application, and must not get a ttl.
function node.is_lock(held)
  return held.lease_id == $SHARED
    or held.lease_id and string.find('/' .. held.lease_id, '/%x+%-%x+%-%x+%-%x+%-%x+:%d+$') and (node.parse_counter(held.holds) or 0) > 0
end

-- Returns the state of the resources of an operation:
--
--   ttls, endless     the rest of the ttl of each held resource; the held resources without a ttl
--   readers           the readers of each shared resource
--   is_all_ours       whether the lease holds all resources
--   other             the other lease with the longest ttl
--   counters, found   the names and the values of the counters
--   largest           the largest counter
--   is_any_missing    whether a counter is missing
--   given             the resources of `from`, which a transfer gives to `lease_id`: they count as free
function node.look_up(resources, lease_id, from)
  local seen = { ttls = {}, endless = {}, counters = {}, found = {}, largest = 0, is_all_ours = true, is_any_missing = false }
  local is_shared = resources.is_shared
  if is_shared then
    seen.readers = {}
  end
  if from then
    seen.given = {}
  end
  for i = 1, #resources do
    local held, readers = node.holder(resources[i]), nil
    if from and held and held.lease_id == from and from ~= lease_id then
      held, seen.given[i] = nil, true
    end
    if held then
      seen.ttls[i] = held.ttl
      if held.ttl < 0 and node.is_lock(held) then
        seen.endless[#seen.endless + 1] = resources[i]
      end
    end
    if is_shared and is_shared[i] then
      readers = held and node.readers(resources[i], held, lease_id)
      seen.readers[i] = readers
      seen.is_all_ours = seen.is_all_ours and readers and readers.is_ours
    elseif not held or held.lease_id ~= lease_id then
      seen.is_all_ours = false
    end
    if held and not readers and (held.lease_id ~= lease_id or is_shared and is_shared[i]) then
      -- A key without a ttl counts as held for the longest ttl, so that no client waits without bound.
      local remaining = held.ttl < 0 and node.max_ttl or held.ttl
      if not seen.other or remaining > seen.other.remaining then
        seen.other = { index = i - 1, lease_id = held.lease_id, remaining = remaining }
      end
    end
  end
  for i = 1, #resources do
    local name = $COUNTER .. braced(resources[i])
    local text = redis.call('GET', name)
    local counter = text and node.integer(text)
    seen.counters[i], seen.found[i] = name, counter
    if not counter then
      seen.is_any_missing = true
    elseif counter > seen.largest then
      seen.largest = counter
    end
  end
  return seen
end

-- Returns the largest counter, where a missing counter has the value `node.start()`.
function node.largest_or_start(seen)
  return seen.is_any_missing and math.max(seen.largest, node.start()) or seen.largest
end

-- Returns the answer to a client that another lease excludes. A lock without a ttl gets the longest ttl now. A
-- failure of this repair is ignored, because it does not change the answer.
function node.held_by_another(seen)
  for i = 1, #seen.endless do
    redis.pcall('PEXPIRE', seen.endless[i], node.max_ttl)
  end
  return { 'held', seen.other.index, seen.other.lease_id, seen.other.remaining, seen.largest }
end
