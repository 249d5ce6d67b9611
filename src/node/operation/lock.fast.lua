-- lock.fast.lua  KEYS one resource  ARGV lease id, ttl, for `turn` and `head` hint, and for `head` waiter, arrival, entry ttl|0
--   ->  vote | with_waiters vote | held index lease_id remaining counter
--
--   lock  of a newcomer that waits, without a hint
--   try   of a newcomer that does not wait, without a hint
--   turn  of a woken waiter
--   head  of a woken waiter at the queue node: the enqueue of the first waiter
local is_woken = name == 'turn' or name == 'head'
arity = name == 'head' and 6 or is_woken and 3 or 2
repeat
  local ttl, counter, queued = words[at + 2], $COUNTER .. braced(resource), nil
  fields = is_usual and (fields or call('HLEN', resource))
  if fields == 1 and not is_woken and is_dirty and call('EXISTS', $QUEUE .. resource .. '}') == 0 then
    local holder, remaining = call('HGETALL', resource)[1], call('PTTL', resource)
    local number, max_ttl = holder ~= lease_id and call('GET', counter), tonumber(string.match(words[3], ' (%d+) '))
    -- The mark ends within `max_ttl`. If the key of a dirty node could end before the mark, the general path follows.
    local lasts = call('PTTL', $DIRTY)
    number = type(number) == 'string' and find(number, '^[1-9]%d*$') and tonumber(number)
    local is_plain = holder and #holder <= 128 and type(remaining) == 'number' and remaining >= 0
    if is_plain and number and number <= largest_counter and type(lasts) == 'number' and lasts >= max_ttl then
      if remaining > 0 and name == 'lock' then
        -- The client will wait, so newcomers must yield. The answer does not depend on the mark, which the user may
        -- not be allowed to write.
        call('SET', $YIELD_MARK .. resource .. '}', '1', 'PX', math.min(remaining, max_ttl))
      end
      answer = { 'held', 0, holder, remaining, number }
    end
    break
  end
  if fields ~= 0 then
    break
  end
  if name == 'head' then
    queued = call('ZRANGE', $QUEUE .. resource .. '}', '0', '2')
    if queued[1] ~= words[at + 4] then
      break
    end
  elseif not is_woken and is_dirty
    and call('EXISTS', $QUEUE .. resource .. '}', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}') ~= 0 then
    break
  end
  -- A counter whose ttl is long enough is only incremented, so that no number is parsed or formatted.
  local remembered = call('PTTL', counter)
  local vote = type(remembered) == 'number' and remembered >= tonumber(words[2]) and call('INCR', counter)
  if type(vote) ~= 'number' then
    break
  end
  if vote <= minimum_token or vote < (is_woken and tonumber(words[at + 3]) or 0) or vote > largest_counter then
    call('DECR', counter)
    break
  end
  local done = call('HSET', resource, lease_id, '1')
  if done == 1 then
    done = call('PEXPIRE', resource, ttl)
    if done ~= 1 and call('HDEL', resource, lease_id) ~= 1 then
      call('DEL', resource)
    end
  end
  if done == 1 and is_woken and is_dirty then
    call('DEL', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}')
  end
  if done == 1 and queued then
    $FAST_LEAVE
  end
  answer = done == 1 and (queued and queued[2] and { 'with_waiters', vote } or vote)
    or { 'error', type(done) == 'table' and done.err or tostring(done) }
until true
