-- readers.lua  ->  the readers of a resource: the owners that share it

-- What the node knows of the readers of a resource that is held: the vote of the first of this
-- unbroken run of readers, the vote of the next, when the last of them ends, and whether this owner
-- is one of them. Nil where there are none. Then its owner is another one to everybody, also
-- where it is the field that stands for readers and nobody is known to be one.
function node.readers(resource, held, owner)
  if held.owner ~= $SHARED then
    return nil
  end
  local phase, epoch = string.match(held.text, '^(%d+):(%d+)$')
  phase, epoch = phase and node.parse_counter(phase), epoch and node.parse_counter(epoch)
  local name = $READERS .. resource .. '}'
  local last = tonumber(redis.call('ZRANGE', name, '-1', '-1', 'WITHSCORES')[2])
  if not (phase and epoch and last) or last < node.milliseconds() then
    return nil
  end
  local ends = owner and tonumber(redis.call('ZSCORE', name, owner))
  return { phase = phase, epoch = epoch, last = last, is_ours = ends and ends >= node.milliseconds() }
end

-- Both keys end together.
function node.end_readers(resource, at)
  redis.call('PEXPIREAT', $READERS .. resource .. '}', node.format_integer(at))
  redis.call('PEXPIREAT', resource, node.format_integer(at))
end

function node.write_epoch(resource, phase, epoch)
  redis.call('HSET', resource, $SHARED, node.format_integer(phase) .. ':' .. node.format_integer(epoch))
end

-- The largest vote that was given for any of the resources already, and whether one was for each:
-- to this owner, or to the readers whom it joins.
function node.given_vote(resources, seen)
  local vote, is_given = 0, true
  for i = 1, #resources do
    local readers = seen.readers[i]
    vote = math.max(vote, readers and readers.epoch or seen.found[i] or 0)
    is_given = is_given and seen.ttls[i] and (readers or not resources.is_shared[i])
  end
  return vote, is_given
end

-- Makes an owner one of these readers, or the first of new ones; an end that is later stays. The
-- vote of the next is `epoch` at least, and the phase of a new run is that. How long it is shared
-- now.
--
-- PEXPIREAT comes before what makes a key, as in `write_owner`.
function node.share(resource, owner, readers, epoch, ttl)
  local name, now = $READERS .. resource .. '}', node.milliseconds()
  local last = math.max(readers and readers.last or 0, now + ttl)
  node.end_readers(resource, last)
  -- Those who are over. What is left of readers whose key was deleted are none.
  redis.call('ZREMRANGEBYSCORE', name, '-inf', readers and '(' .. node.format_integer(now) or '+inf')
  redis.call('ZADD', name, 'GT', node.format_integer(now + ttl), owner)
  redis.call('PEXPIREAT', name, node.format_integer(last))
  node.write_epoch(resource, readers and readers.phase or epoch, math.max(readers and readers.epoch or 0, epoch))
  redis.call('PEXPIREAT', resource, node.format_integer(last))
  return last - now
end

-- Takes an owner out of the readers, unless it `is_taken` already: 1 if it was one, else 0; and
-- whether nobody is left.
function node.unshare(resource, owner, is_taken)
  local name = $READERS .. resource .. '}'
  if not is_taken then
    -- A replica refuses to delete even what is not there, and then there is nothing to deliver.
    if not redis.call('ZSCORE', name, owner) then
      return 0
    end
    redis.call('ZREM', name, owner)
  end
  -- What was left of readers when their key was deleted: its owner now keeps it.
  if not redis.call('HMGET', resource, $SHARED)[1] then
    return 0
  end
  local last = tonumber(redis.call('ZRANGE', name, '-1', '-1', 'WITHSCORES')[2])
  if last and last >= node.milliseconds() then
    node.end_readers(resource, last)
    return 1
  end
  redis.call('HDEL', resource, $SHARED)
  redis.call('ZREMRANGEBYSCORE', name, '-inf', '+inf')
  return 1, true
end

-- Those who wait for readers wait for as long as these stay. Where that cannot be written, others
-- may come before them.
function node.extend_yield_mark(resource, ttl)
  if node.flags().is_dirty and redis.call('PTTL', $YIELD_MARK .. resource .. '}') < ttl then
    pcall(node.set_yield_mark, resource, ttl, 'XX')
  end
end

-- Has those who share a resource let a writer go first whose turn it is, until that comes again.
function node.set_writer_mark(resource, ttl)
  node.set_yield_mark(resource, ttl)
  redis.call('SET', $WRITER_MARK .. resource .. '}', '1', 'PX', math.min(4 * node.hand_over, node.max_ttl))
end

-- Whether an owner that is to share a resource, and has its turn, lets a writer go first: then it is
-- as if readers had it whom it cannot join.
function node.yield_to_writer(resources, seen)
  for i = 1, resources.is_shared and not seen.other and node.flags().is_dirty and #resources or 0 do
    if resources.is_shared[i] and not (seen.readers[i] and seen.readers[i].is_ours) then
      local left = redis.call('PTTL', $WRITER_MARK .. resources[i] .. '}')
      if left >= 0 then
        seen.other = { index = i - 1, owner = $SHARED, remaining = left }
        return
      end
    end
  end
end
