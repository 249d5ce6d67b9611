-- readers.lua  ->  the readers of a resource: the leases that share the resource

-- Returns the run of readers of a held resource: phase (the vote of the first reader), epoch (the vote of the
-- next reader), the end of the last reader, and whether `lease_id` is a reader. Nil if there are no readers. A
-- key that has the field of readers, but no readers, counts as held by another lease for every caller.
function node.readers(resource, held, lease_id)
  if held.lease_id ~= $SHARED then
    return nil
  end
  local phase, epoch = string.match(held.text, '^(%d+):(%d+)$')
  phase, epoch = phase and node.parse_counter(phase), epoch and node.parse_counter(epoch)
  local name = $READERS .. resource .. '}'
  local last = tonumber(redis.call('ZRANGE', name, '-1', '-1', 'WITHSCORES')[2])
  if not (phase and epoch and last) or last < node.milliseconds() then
    return nil
  end
  local ends = lease_id and tonumber(redis.call('ZSCORE', name, lease_id))
  return { phase = phase, epoch = epoch, last = last, is_ours = ends and ends >= node.milliseconds() }
end

-- Sets the end of both keys of a run of readers.
function node.end_readers(resource, at)
  redis.call('PEXPIREAT', $READERS .. resource .. '}', node.format_integer(at))
  redis.call('PEXPIREAT', resource, node.format_integer(at))
end

-- Writes phase and epoch of a run of readers.
function node.write_epoch(resource, phase, epoch)
  redis.call('HSET', resource, $SHARED, node.format_integer(phase) .. ':' .. node.format_integer(epoch))
end

-- Returns the largest vote that was given for the resources before, to this lease or to the readers that the
-- lease joins, and whether such a vote exists for each resource.
function node.given_vote(resources, seen)
  local vote, is_given = 0, true
  for i = 1, #resources do
    local readers = seen.readers[i]
    vote = math.max(vote, readers and readers.epoch or seen.found[i] or 0)
    is_given = is_given and seen.ttls[i] and (readers or not resources.is_shared[i])
  end
  return vote, is_given
end

-- Adds a lease to the readers, or begins a new run. If the lease is a reader already, a later end is kept. The vote
-- of the next reader is at least `epoch`, which is also the phase of a new run. Returns the time until the last
-- reader ends.
--
-- PEXPIREAT precedes the command that creates a key, as in `write_lease_id`.
function node.share(resource, lease_id, readers, epoch, ttl)
  local name, now = $READERS .. resource .. '}', node.milliseconds()
  local last = math.max(readers and readers.last or 0, now + ttl)
  node.end_readers(resource, last)
  -- Removes expired readers, and all readers if their key was deleted.
  redis.call('ZREMRANGEBYSCORE', name, '-inf', readers and '(' .. node.format_integer(now) or '+inf')
  redis.call('ZADD', name, 'GT', node.format_integer(now + ttl), lease_id)
  redis.call('PEXPIREAT', name, node.format_integer(last))
  node.write_epoch(resource, readers and readers.phase or epoch, math.max(readers and readers.epoch or 0, epoch))
  redis.call('PEXPIREAT', resource, node.format_integer(last))
  return last - now
end

-- Removes a lease from the readers, unless the fast path has done so (`is_removed`). Returns 1 if the lease
-- was a reader, else 0, and whether no reader is left.
function node.unshare(resource, lease_id, is_removed)
  local name = $READERS .. resource .. '}'
  if not is_removed then
    -- Without this check, a replica would refuse the deletion of a reader that does not exist, and the client
    -- would send the unlock again and again.
    if not redis.call('ZSCORE', name, lease_id) then
      return 0
    end
    redis.call('ZREM', name, lease_id)
  end
  -- The resource is no longer held by readers, but may be held by another lease.
  if not redis.call('HMGET', resource, $SHARED)[1] then
    return 0
  end
  local last = tonumber(redis.call('ZRANGE', name, '-1', '-1', 'WITHSCORES')[2])
  if last and last >= node.milliseconds() then
    node.end_readers(resource, last)
    return 1
  end
  redis.call('HDEL', resource, $SHARED)
  -- The remaining readers have expired.
  redis.pcall('ZREMRANGEBYSCORE', name, '-inf', '+inf')
  return 1, true
end

-- Extends an existing yield mark to the end of the readers, because waiters may wait for that end. A failure is
-- ignored: newcomers may then overtake the waiters.
function node.extend_yield_mark(resource, ttl)
  if node.flags().is_dirty and redis.call('PTTL', $YIELD_MARK .. resource .. '}') < ttl then
    pcall(node.set_yield_mark, resource, ttl, 'XX')
  end
end

-- Sets a yield mark and a writer mark on a resource of readers, until the woken writer attempts again.
function node.set_writer_mark(resource, ttl)
  node.set_yield_mark(resource, ttl)
  redis.call('SET', $WRITER_MARK .. resource .. '}', '1', 'PX', math.min(4 * node.hand_over, node.max_ttl))
end

-- Refuses a woken reader that must yield to a woken writer. The answer is the same as for readers that
-- the lease cannot join.
function node.yield_to_writer(resources, seen)
  for i = 1, resources.is_shared and not seen.other and node.flags().is_dirty and #resources or 0 do
    if resources.is_shared[i] and not (seen.readers[i] and seen.readers[i].is_ours) then
      local left = redis.call('PTTL', $WRITER_MARK .. resources[i] .. '}')
      if left >= 0 then
        seen.other = { index = i - 1, lease_id = $SHARED, remaining = left }
        return
      end
    end
  end
end
