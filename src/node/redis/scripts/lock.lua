-- lock.lua  KEYS resources  ARGV owner, ttl, hint  ->  vote | held index owner remaining counter | gone
--
-- In as few steps as can be, what is asked for most: one resource that is free, at a node with nothing out of the ordinary.
-- Everything else is left to `lock_any`, before anything is written.
function node.lock(resources, owner, ttl, hint)
  local resource, record = resources[1], node.record()
  local is_plain = #resources == 1 and hint == '0' and record.fingerprint == ARGV[1] and record.run == ARGV[5]
  is_plain = is_plain and ARGV[2] ~= 'per_vote' and not node.signs().is_quarantined
  if is_plain and not node.is_gone(resource, owner) and redis.call('HLEN', resource) == 0 then
    local counter_name = node.named('redisson_lock_token:', resource)
    -- A counter that is remembered for long enough is only counted up, which needs no number to be read or written.
    local is_fresh = redis.call('PTTL', counter_name) >= tonumber(ARGV[4])
    local vote, floor = is_fresh and redis.pcall('INCR', counter_name), node.usable(record.floor)
    if type(vote) == 'number' then
      if floor and vote > floor and vote <= node.largest_counter then
        -- In the order of `own`, for its reasons: without the first, the last might be found forbidden too late. Once for
        -- all entries of a call: whoever may expire one key that it may write may expire any.
        if not node.may_expire then
          redis.call('PEXPIRE', resource, ttl)
          node.may_expire = true
        end
        redis.call('HSET', resource, owner, '1')
        redis.call('PEXPIRE', resource, ttl)
        return vote
      end
      redis.call('DECR', counter_name)
    end
  end
  node.need('lock_any')
  return node.lock_any(resources, owner, ttl, hint)
end
