-- readers.lua  ->  the readers of a resource: the leases that share the resource

-- Returns the run of readers of a held resource: phase (the vote of the first reader), epoch (the vote of the
-- next reader), the end of the last reader, and whether `lease_id` is a reader. Nil if no reader is
-- left. If the key nevertheless has the field of readers, the caller treats the resource as held by another lease.
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

-- Returns the vote to give again: the largest of the epochs of the readers that the lease joins, and of the
-- counters of the other resources. Also returns whether each resource already has this lease, or readers to join.
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
-- PEXPIREAT is called before the commands that create a key, too: if the user lacks its permission, the call fails, and
-- no key without a ttl is created.
function node.share(resource, lease_id, readers, epoch, ttl)
  local name, now = $READERS .. resource .. '}', node.milliseconds()
  local last = math.max(readers and readers.last or 0, now + ttl)
  node.end_readers(resource, last)
  -- Removes expired readers. If a new run begins, all readers of an earlier run are removed.
  redis.call('ZREMRANGEBYSCORE', name, '-inf', readers and '(' .. node.format_integer(now) or '+inf')
  redis.call('ZADD', name, 'GT', node.format_integer(now + ttl), lease_id)
  redis.call('PEXPIREAT', name, node.format_integer(last))
  node.write_epoch(resource, readers and readers.phase or epoch, math.max(readers and readers.epoch or 0, epoch))
  redis.call('PEXPIREAT', resource, node.format_integer(last))
  return last - now
end

-- Removes a lease from the readers, unless the fast path has done so (`is_removed`). Returns 1 if the lease
-- was a reader of a resource that readers hold, else 0. The second result is true if no reader is left.
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
  -- Without the field of readers, the resource is free or held by another lease.
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

-- Sets a yield mark for `ttl`, and a writer mark for four hand-overs, on a resource that readers hold. Within four
-- hand-overs, the refused writer usually has its next turn.
function node.set_writer_mark(resource, ttl)
  node.set_yield_mark(resource, ttl)
  redis.call('SET', $WRITER_MARK .. resource .. '}', '1', 'PX', math.min(4 * node.hand_over, node.max_ttl))
end

-- Makes a queued reader yield to a woken writer: sets `seen.other`, so that the answer is the same as for readers that
-- the lease cannot join. A lease that is a reader already does not yield.
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
