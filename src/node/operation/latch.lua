-- latch.lua  KEYS one latch  ARGV count, open 0|1, arrivals: each its length, a colon and itself, ttl
--   ->  open | arrived id ... | count_mismatch count | abstains
node.arity.latch = 4
function node.latch(resources, count, is_open, arrivals, ttl)
  node.may_vote()
  local name = $LATCH .. resources[1] .. '}'
  local before = redis.call('HMGET', name, 'count', 'open')
  if before[1] and before[1] ~= count then
    return { 'count_mismatch', before[1] }
  end
  local opens = is_open == '1'
  ttl = tonumber(ttl)
  if opens or arrivals ~= '' or before[1] then
    -- The PEXPIRE precedes the HSET, as in `write_lease_id`. No client shortens the ttl.
    if redis.call('PTTL', name) < ttl then
      redis.call('PEXPIRE', name, ttl)
    end
    if not before[2] and (opens or arrivals ~= '') then
      local fields, at = { 'count', count }, 1
      while at <= #arrivals do
        local _, stop, length = string.find(arrivals, '^(%d+):', at)
        at = stop + length + 1
        fields[#fields + 1] = ':' .. string.sub(arrivals, stop + 1, at - 1)
        fields[#fields + 1] = ''
      end
      redis.call('HSET', name, unpack(fields))
      -- One field is the count; all other fields are arrivals.
      opens = opens or redis.call('HLEN', name) > tonumber(count)
      if opens then
        redis.call('HSET', name, 'open', '1')
      end
      if not before[1] then
        redis.call('PEXPIRE', name, ttl)
      end
      if opens then
        redis.call('PUBLISH', $CHANNEL .. braced(name), '0')
      end
    end
  end
  if opens or before[2] then
    return { 'open' }
  end
  local reply, fields = { 'arrived' }, redis.call('HGETALL', name)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == ':' then
      reply[#reply + 1] = string.sub(fields[i], 2)
    end
  end
  return reply
end
