-- share.fast.lua  KEYS one resource  ARGV lease id, ttl  ->  vote
arity = 2
repeat
  local ttl, counter = tonumber(words[at + 2]), $COUNTER .. braced(resource)
  fields = is_usual and (fields or call('HLEN', resource))
  if fields ~= 0 and fields ~= 1 or is_dirty
    and call('EXISTS', $QUEUE .. resource .. '}', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}') ~= 0 then
    break
  end
  local remembered = call('PTTL', counter)
  if type(remembered) ~= 'number' or remembered < tonumber(words[2]) then
    break
  end
  -- `last_end` is the end of the last reader; nil if the lease is the first reader.
  local vote, last_end
  if fields == 1 then
    -- The lease gets the vote of the present readers. A counter that is missing or has another value is left to the
    -- general path.
    local text = string.match(call('HMGET', resource, $SHARED)[1] or '', '^[1-9]%d*:([1-9]%d*)$')
    last_end = text and call('GET', counter) == text and tonumber(call('ZRANGE', readers, '-1', '-1', 'WITHSCORES')[2])
    vote = tonumber(text)
    if not last_end or vote < minimum_token or vote > largest_counter then
      break
    end
  else
    vote = (found == 0 or call('EXISTS', readers) == 0) and call('INCR', counter)
    if type(vote) ~= 'number' then
      break
    end
    if vote <= minimum_token or vote > largest_counter then
      call('DECR', counter)
      break
    end
  end
  time = time or (node and node.known_time) or call('TIME')
  time = time[1] and time
  -- Numbers are formatted in two halves, for the reason in `format_integer`.
  local format, micro = string.format, time and tonumber(time[2])
  local now = micro and time[1] * 1000 + (micro - micro % 1000) / 1000
  if not now or last_end and last_end < now then
    break
  end
  local ends, done = format('%d%07d', (now + ttl) / 10000000, (now + ttl) % 10000000), nil
  if last_end then
    done = call('ZADD', readers, 'NX', ends, lease_id)
    -- If the lease is a reader already, its end may be later than the new end, and stays.
    if done == 0 then
      break
    end
    if done == 1 then
      call('ZREMRANGEBYSCORE', readers, '-inf', format('(%d%07d', now / 10000000, now % 10000000))
    end
    if done == 1 and last_end < now + ttl then
      done = call('PEXPIREAT', readers, ends)
      done = done == 1 and call('PEXPIREAT', resource, ends) or done
    end
  else
    local phase = vote < 10000000 and format('%d', vote) or format('%d%07d', vote / 10000000, vote % 10000000)
    done = call('ZADD', readers, ends, lease_id)
    done = done == 1 and call('PEXPIREAT', readers, ends) or done
    done = done == 1 and call('HSET', resource, $SHARED, phase .. ':' .. phase) or done
    done = done == 1 and call('PEXPIREAT', resource, ends) or done
    if done ~= 1 and type(call('DEL', resource, readers)) == 'table' then
      call('HDEL', resource, $SHARED)
      call('ZREM', readers, lease_id)
    end
  end
  if done == 0 then
    break
  end
  answer = done == 1 and vote or { 'error', type(done) == 'table' and done.err or tostring(done) }
until true
