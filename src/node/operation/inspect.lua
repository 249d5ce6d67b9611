-- inspect.lua  KEYS one resource  ARGV maximum number of readers, of details  ->  inspected counter incarnation|false fingerprint|false quarantine|-1|false details|false [lease_id holds remaining [reader remaining] ...]

-- Returns the details of a resource: the number of waiters, whether the holder leads an election, the latch of the
-- same name, and the first waiters. The answer has at most `most` waiters, and the arrivals only if there are at most
-- `most`.
function node.details(resource, held, most)
  local waiters, queue = 0, {}
  if node.has_queue(resource) then
    waiters = redis.call('ZCOUNT', $ENTRY_TTL .. resource .. '}', node.format_integer(node.milliseconds()), '+inf')
    -- Entries that have ended do not count, so further entries take their places.
    local from, first = 0, nil
    repeat
      first = redis.call('ZRANGE', $QUEUE .. resource .. '}', from, from + most - 1)
      for _, waiter in ipairs(first) do
        if #queue < most and node.entry_ttl_left(resource, waiter) then
          queue[#queue + 1] = waiter
        end
      end
      from = from + most
    until #first < most or #queue >= most or #queue >= waiters
  end
  -- An error of these commands, such as for a key of another program, counts as a missing key.
  local leader = redis.pcall('HMGET', $LEADER .. resource .. '}', 'owner')[1]
  local leads = held and held.lease_id and held.lease_id == leader and 1 or 0
  local name, latch = $LATCH .. resource .. '}', false
  local count, is_open = unpack(redis.pcall('HMGET', name, 'count', 'open'))
  if count then
    local arrived = redis.call('HLEN', name) - (is_open and 2 or 1)
    latch = { count, is_open and 1 or 0, arrived, redis.call('PTTL', name) }
    local fields = arrived <= most and redis.call('HGETALL', name) or {}
    for i = 1, #fields, 2 do
      if string.sub(fields[i], 1, 1) == ':' then
        latch[#latch + 1] = string.sub(fields[i], 2)
      end
    end
  end
  return { waiters, leads, latch, unpack(queue) }
end

node.arity.inspect = 2
function node.inspect(resources, max_readers, max_details)
  local held = node.holder(resources[1])
  local counter = redis.call('GET', $COUNTER .. braced(resources[1]))
  counter = counter and node.integer(counter) or 0
  local fingerprint_of_metadata = node.metadata().fingerprint or false
  local abstains = node.abstention()
  abstains = abstains and (abstains[2] or -1) or false
  local details = max_details ~= '0' and node.details(resources[1], held, tonumber(max_details))
  local reply = { 'inspected', counter, node.incarnation(), fingerprint_of_metadata, abstains, details }
  if not held then
    return reply
  end
  reply[7], reply[8], reply[9] = held.lease_id, held.holds, held.ttl
  if held.lease_id == $SHARED then
    node.require_functions('share')
    reply[8] = 0
  end
  if held.lease_id == $SHARED and node.readers(resources[1], held) then
    local readers, now = $READERS .. resources[1] .. '}', node.format_integer(node.milliseconds())
    reply[8] = redis.call('ZCOUNT', readers, now, '+inf')
    -- The readers that expire first, at most `max_readers`, because a resource may have any number of readers.
    local first = redis.call('ZRANGE', readers, now, '+inf', 'BYSCORE', 'LIMIT', 0, max_readers, 'WITHSCORES')
    for i = 1, #first, 2 do
      reply[#reply + 1] = first[i]
      reply[#reply + 1] = first[i + 1] - node.milliseconds()
    end
  end
  return reply
end
