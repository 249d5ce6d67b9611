-- dispatch.lua  KEYS resources of all operations  ARGV fingerprint, incarnation, counter ttl, guard and max ttl and hand-over, operations ...  ->  answers
--
-- Each is a name, the number of its resources, and its arguments; where any of the resources is
-- shared, `shared` and which they are goes before: `01` if it is the second of two. What is asked
-- for most, to lock, to unlock and to renew one resource, comes without the number and has a short
-- way here: in as few steps as can be, and without the functions of the others. What it finds out
-- of the ordinary is left to `lock_any` and its like, before it writes anything but the counter of a
-- lock, which it counts up first and down again.
--
--   lock          owner, ttl: without a hint
--   try           the same of a client that does not wait
--   renew         owner, holds, ttl, token
--   unlock        owner, kind: notify 0|1, tombstone 0|1 unless all was deleted|2, and 1 if it is
--                 known that others wait
--   release       owner: notifies, leaves no tombstone
--   release_late  owner: notifies, leaves a tombstone unless it deletes
--   turn          owner, ttl, hint: the lock of a waiter that was woken
--   head          the same at the queue node, and waiter, ticket, entry ttl|0: short for the head of
--                 the queue; any other waiter is left to `enqueue`
--   share         owner, ttl: a lock of a shared resource, without a hint
--   unshare       owner: the release of one
--   unshare_late  owner: leaves a tombstone unless the owner was a reader
--
-- All kinds of release are for resources without a brace in their names.
--
-- Where there are signs of tombstones, wait queues or marks, a short way asks whether there is a
-- queue of its resource, or a mark if that matters to it, and is left if there is. A waiter at its
-- turn is what they are for, so its lock is not left for them.
local largest_counter = 9007199254740991
-- Locals, because a global is looked up by its name at each use.
local keys, words, call, type, find = KEYS, ARGV, redis.pcall, type, string.find
local node, minimum_token, has_signs, time
local answers, answered, key, at, last = {}, 0, 1, 5, #words

-- By Redisson's rule: no braces of ours where the resource has one.
local function braced(resource)
  return find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
end

while at <= last do
  local name, owner, resource = words[at], words[at + 1], keys[key]
  local arity, answer, is_usual, shared, is_taken
  local has_turn = name == 'turn' or name == 'head'

  if name == 'release' or name == 'release_late' or name == 'unlock' then
    local channel
    if name ~= 'unlock' then
      arity, is_usual, channel = 1, true, $CHANNEL .. '{' .. resource .. '}'
    else
      local kind = words[at + 2]
      local notifies = kind == '10' or kind == '11'
      arity, channel = 2, notifies and $CHANNEL .. braced(resource)
      is_usual = notifies or kind == '00' or kind == '01'
    end
    if has_signs == nil then
      has_signs = call('EXISTS', $ANY) ~= 0
    end
    is_usual = is_usual and not (has_signs
      and call('EXISTS', $QUEUE .. resource .. '}', $MARK .. resource .. '}') ~= 0)
    if is_usual and call('HDEL', resource, owner) == 1 then
      local heard = channel and call('PUBLISH', channel, '0')
      answer = type(heard) == 'table' and { 'error', heard.err } or 1
    end

  elseif name == 'lock' or has_turn or name == 'try' or name == 'renew' or name == 'share' then
    -- The minimum token of a node that votes: its metadata names this quorum and the incarnation
    -- that the connection knows, and there is no quarantine. Mostly there is no tombstone, wait
    -- queue or mark either, nor, for a lock, the resource, and one question answers all.
    local fields, found
    local readers = name == 'share' and $READERS .. resource .. '}'
    if minimum_token == nil then
      local metadata = call('HMGET', $METADATA, 'fingerprint', 'incarnation', 'minimum_token')
      minimum_token = metadata[1] == words[1] and metadata[2] == words[2] and metadata[3]
      -- To read a number costs about a fifth of a command.
      minimum_token = minimum_token == '0' and 0 or (minimum_token and find(minimum_token, '^[1-9]%d*$') and tonumber(minimum_token))
      found = readers and call('EXISTS', $QUARANTINE, $ANY, resource, readers) or call('EXISTS', $QUARANTINE, $ANY, resource)
      fields = found == 0 and 0 or call('HLEN', resource)
      has_signs = type(found) ~= 'number' or found > (fields == 0 and 0 or readers and 2 or 1)
      minimum_token = not (has_signs and call('EXISTS', $QUARANTINE) ~= 0) and minimum_token
    end
    is_usual = minimum_token and not (has_signs and call('EXISTS', $TOMBSTONE .. braced(resource) .. ':' .. owner) ~= 0)

    if name == 'renew' then
      arity = 4
      local holds, ttl, token = words[at + 2], words[at + 3], words[at + 4]
      local counter, number = $COUNTER .. braced(resource), tonumber(token)
      is_usual = is_usual and minimum_token <= number and number <= largest_counter and (fields or call('HLEN', resource)) == 1
      -- A counter at the token, which lives for long enough, needs no number to be read or written.
      is_usual = is_usual and not (has_signs and call('EXISTS', $QUEUE .. resource .. '}') ~= 0)
      is_usual = is_usual and call('HMGET', resource, owner)[1] == holds and call('GET', counter) == token
      local remembered = is_usual and call('PTTL', counter)
      if type(remembered) == 'number' and remembered >= tonumber(words[3]) then
        local remaining = call('PTTL', resource)
        if type(remaining) == 'number' and remaining < tonumber(ttl) then
          remaining = call('PEXPIRE', resource, ttl)
        end
        answer = type(remaining) == 'table' and { 'error', remaining.err } or 1
      end
    elseif name ~= 'share' then
      arity = name == 'head' and 6 or has_turn and 3 or 2
      local ttl, counter, queued = words[at + 2], $COUNTER .. braced(resource), nil
      local hint = has_turn and tonumber(words[at + 3]) or 0
      fields = is_usual and (fields or call('HLEN', resource))
      if fields == 0 and name == 'head' then
        queued = call('ZRANGE', $QUEUE .. resource .. '}', '0', '2')
        fields = queued[1] == words[at + 4] and 0
      end
      if fields == 0 and not (has_signs and not has_turn
        and call('EXISTS', $QUEUE .. resource .. '}', $MARK .. resource .. '}', $TURN_MARK .. resource .. '}') ~= 0) then
        -- A counter that is remembered for long enough is only counted up, which needs no number to
        -- be read or written.
        local remembered = call('PTTL', counter)
        local vote = type(remembered) == 'number' and remembered >= tonumber(words[3]) and call('INCR', counter)
        local is_number = type(vote) == 'number'
        if is_number and vote > minimum_token and vote >= hint and vote <= largest_counter then
          local done = call('HSET', resource, owner, '1')
          if done == 1 then
            done = call('PEXPIRE', resource, ttl)
            if done ~= 1 and call('HDEL', resource, owner) ~= 1 then
              call('DEL', resource)
            end
          end
          if has_turn and has_signs and done == 1 then
            call('DEL', $MARK .. resource .. '}', $TURN_MARK .. resource .. '}')
          end
          if queued and done == 1 then
            local waiter, woken = queued[1], call('GET', $WOKEN .. resource .. '}')
            local left = call('ZREM', $QUEUE .. resource .. '}', waiter)
            local ended = call('ZREM', $ENTRY_TTL .. resource .. '}', waiter)
            if type(woken) == 'string' and string.sub(woken, -#waiter - 1) == ' ' .. waiter then
              call('DEL', $WOKEN .. resource .. '}')
            end
            done = type(left) == 'table' and left or type(ended) == 'table' and ended or 1
            if queued[3] then
              call('PUBLISH', $CHANNEL .. $NEXT .. resource .. '}:' .. queued[3], '0')
            end
            vote = queued[2] and { 'awaited', vote } or vote
          end
          answer = done == 1 and vote or { 'error', type(done) == 'table' and done.err or tostring(done) }
        elseif is_number then
          call('DECR', counter)
        end
      elseif fields == 1 and not has_turn and has_signs and call('EXISTS', $QUEUE .. resource .. '}') == 0 then
        -- A client that is refused will wait, so it leaves a mark. The sign that there are marks
        -- has to outlive it.
        local holder, remaining = call('HGETALL', resource)[1], call('PTTL', resource)
        local number, max_ttl = holder ~= owner and call('GET', counter), tonumber(string.match(words[4], ' (%d+) '))
        local lasts = call('PTTL', $ANY)
        local is_signed = type(lasts) == 'number' and lasts >= max_ttl
        number = type(number) == 'string' and find(number, '^[1-9]%d*$') and tonumber(number)
        local is_plain = holder and #holder <= 128 and type(remaining) == 'number' and remaining >= 0
        if is_plain and number and number <= largest_counter and is_signed then
          if remaining > 0 and name == 'lock' then
            -- Where it cannot be written, the answer is the same.
            call('SET', $MARK .. resource .. '}', '1', 'PX', math.min(remaining, max_ttl))
          end
          answer = { 'held', 0, holder, remaining, number }
        end
      end
    else
      arity = 2
      local ttl, counter = tonumber(words[at + 2]), $COUNTER .. braced(resource)
      fields = is_usual and (fields or call('HLEN', resource))
      is_usual = (fields == 0 or fields == 1) and not (has_signs
        and call('EXISTS', $QUEUE .. resource .. '}', $MARK .. resource .. '}', $TURN_MARK .. resource .. '}') ~= 0)
      local remembered = is_usual and call('PTTL', counter)
      is_usual = type(remembered) == 'number' and remembered >= tonumber(words[3])
      local vote, last
      if is_usual and fields == 1 then
        -- Who joins readers gets their vote. The counter is there, too, as they left it.
        local text = string.match(call('HMGET', resource, $SHARED)[1] or '', '^[1-9]%d*:([1-9]%d*)$')
        last = text and call('GET', counter) == text and tonumber(call('ZRANGE', readers, '-1', '-1', 'WITHSCORES')[2])
        vote = tonumber(text)
        is_usual = last and vote >= minimum_token and vote <= largest_counter
      else
        vote = is_usual and (found == 0 or call('EXISTS', readers) == 0) and call('INCR', counter)
        is_usual = type(vote) == 'number' and vote > minimum_token and vote <= largest_counter
        if not is_usual and type(vote) == 'number' then
          call('DECR', counter)
        end
      end
      if is_usual then
        time = time or (node and node.known_time) or call('TIME')
        time = time[1] and time
      end
      -- Numbers become text in two halves: `text_of` says why.
      local format, micro = string.format, is_usual and time and tonumber(time[2])
      local now = micro and time[1] * 1000 + (micro - micro % 1000) / 1000
      if now and (not last or last >= now) then
        local ends, done = format('%d%07d', (now + ttl) / 10000000, (now + ttl) % 10000000), nil
        if last then
          done = call('ZADD', readers, 'NX', ends, owner)
          if done == 1 then
            call('ZREMRANGEBYSCORE', readers, '-inf', format('(%d%07d', now / 10000000, now % 10000000))
          end
          if done == 1 and last < now + ttl then
            done = call('PEXPIREAT', readers, ends)
            done = done == 1 and call('PEXPIREAT', resource, ends) or done
          end
        else
          local phase = vote < 10000000 and format('%d', vote) or format('%d%07d', vote / 10000000, vote % 10000000)
          done = call('ZADD', readers, ends, owner)
          done = done == 1 and call('PEXPIREAT', readers, ends) or done
          done = done == 1 and call('HSET', resource, $SHARED, phase .. ':' .. phase) or done
          done = done == 1 and call('PEXPIREAT', resource, ends) or done
          if done ~= 1 and type(call('DEL', resource, readers)) == 'table' then
            call('HDEL', resource, $SHARED)
            call('ZREM', readers, owner)
          end
        end
        -- One that is a reader already may be so for longer.
        if done ~= 0 then
          answer = done == 1 and vote or { 'error', type(done) == 'table' and done.err or tostring(done) }
        end
      end
    end

  elseif name == 'unshare' or name == 'unshare_late' then
    arity = 1
    local readers = $READERS .. resource .. '}'
    is_taken = call('ZREM', readers, owner) == 1
    -- Mostly there is nobody left, nor any tombstone, wait queue or mark, and one question answers
    -- both.
    local left = is_taken and not has_signs and (has_signs == nil and call('EXISTS', readers, $ANY) or call('EXISTS', readers))
    if left == 0 then
      is_usual = call('HDEL', resource, $SHARED) == 1
    elseif left == 1 then
      -- The key of a resource ends with its last reader; at once, if that one is over.
      local ends = call('ZRANGE', readers, '-1', '-1', 'WITHSCORES')[2]
      if ends and call('HMGET', resource, $SHARED)[1] and call('PEXPIREAT', readers, ends) == 1 and call('PEXPIREAT', resource, ends) == 1 then
        left = call('EXISTS', readers)
        is_usual, answer = left == 0, left == 1 and 1 or nil
      end
    end
    if is_usual then
      local heard = call('PUBLISH', $CHANNEL .. '{' .. resource .. '}', '0')
      answer = type(heard) == 'table' and { 'error', heard.err } or 1
    end
  end

  local count, first = 1, at + 1
  if not arity then
    if name == 'shared' then
      shared, name, first = words[first], words[first + 1], first + 2
    end
    node = node or define(braced)
    node.need(name)
    count, first, arity = words[first], first + 1, node.arity[name]
  end
  if not answer then
    node = node or define(braced)
    if time then
      node.known_time = time
    end
    local arguments
    if name == 'release' or name == 'unshare' then
      shared, name, arguments = name == 'unshare' and '1', 'unlock_any', { owner, '10', is_taken }
    elseif name == 'release_late' or name == 'unshare_late' then
      shared, name, arguments = name == 'unshare_late' and '1', 'unlock_any', { owner, '11', is_taken }
    elseif name == 'lock' or name == 'try' or name == 'share' then
      shared, name, arguments = name == 'share' and '1', name == 'try' and 'try_any' or 'lock_any', { owner, words[first + 1], '0' }
    elseif has_turn then
      arguments = { unpack(words, first, first + arity - 1) }
      if name == 'head' then
        arguments[7], arguments[8] = '0', '0'
      end
      name = name == 'head' and 'enqueue' or 'take'
      node.need(name)
    else
      arguments = { unpack(words, first, first + arity - 1) }
      name = (name == 'unlock' or name == 'renew') and name .. '_any' or name
    end
    -- Not by `unpack`, which fails at 8,000: that would end the call, and the operations before
    -- and behind this one with it.
    local resources = {}
    for i = 1, count do
      resources[i] = keys[key + i - 1]
    end
    if shared then
      node.need('share')
      resources.is_shared = {}
      for i = 1, count do
        resources.is_shared[i] = string.sub(shared, i, i) == '1'
      end
    end
    local is_done, result = pcall(node[name], resources, unpack(arguments))
    -- Of the errors, tables are answers, unless they are those of commands; before version 7, those
    -- are texts.
    if not is_done and (type(result) ~= 'table' or result.err) then
      result = { 'error', type(result) == 'table' and result.err or tostring(result) }
    end
    answer = result
    -- What the node is may be another by now.
    minimum_token, has_signs = nil, nil
  end
  answered = answered + 1
  answers[answered] = answer
  key, at = key + count, first + arity
end
return answers
