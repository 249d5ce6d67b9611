-- dispatch.lua  KEYS resources of all operations  ARGV fingerprint, incarnation, counter ttl, guard and max ttl and hand-over, operations ...  ->  answers
--
-- Each is a name, the number of its resources, and its arguments. What is asked for most,
-- to lock, to unlock and to renew one resource, comes without the number and has a short way here:
-- in as few steps as can be, and without the functions of the others. What it finds out of the
-- ordinary is left to `lock_any` and its like, before it writes anything but the counter of a lock,
-- which it counts up first and down again.
--
--   lock          owner, ttl: without a hint
--   renew         owner, holds, ttl, token
--   unlock        owner, kind: notify 0|1, tombstone 0|1 unless all was deleted|2, and 1 if it is
--                 known that others wait
--   release       owner: notifies, leaves no tombstone
--   release_late  owner: notifies, leaves a tombstone unless it deletes
--
-- Both kinds of release are for resources without a brace in their names.
--
-- Where there are signs of tombstones, wait queues or marks, a short way asks whether there is a
-- queue of its resource, or a mark if that matters to it, and is left if there is.
local largest_counter = 9007199254740991
-- Locals, because a global is looked up by its name at each use.
local keys, words, call, type, find = KEYS, ARGV, redis.pcall, type, string.find
local node, minimum_token, has_signs
local answers, answered, key, at, last = {}, 0, 1, 5, #words

-- By Redisson's rule: no braces of ours where the resource has one.
local function braced(resource)
  return find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
end

while at <= last do
  local name, owner, resource = words[at], words[at + 1], keys[key]
  local arity, answer, is_usual

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

  elseif name == 'lock' or name == 'renew' then
    -- The minimum token of a node that votes: its metadata names this quorum and the incarnation
    -- that the connection knows, and there is no quarantine. Mostly there is no tombstone, wait
    -- queue or mark either, nor, for a lock, the resource, and one question answers all.
    local fields
    if minimum_token == nil then
      local metadata = call('HMGET', $METADATA, 'fingerprint', 'incarnation', 'minimum_token')
      minimum_token = metadata[1] == words[1] and metadata[2] == words[2] and metadata[3]
      -- To read a number costs about a fifth of a command.
      minimum_token = minimum_token == '0' and 0 or (minimum_token and find(minimum_token, '^[1-9]%d*$') and tonumber(minimum_token))
      local found = call('EXISTS', $QUARANTINE, $ANY, resource)
      fields = found == 0 and 0 or call('HLEN', resource)
      has_signs = type(found) ~= 'number' or found > (fields == 0 and 0 or 1)
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
    else
      arity = 2
      local ttl, counter = words[at + 2], $COUNTER .. braced(resource)
      fields = is_usual and (fields or call('HLEN', resource))
      if fields == 0 and not (has_signs
        and call('EXISTS', $QUEUE .. resource .. '}', $MARK .. resource .. '}') ~= 0) then
        -- A counter that is remembered for long enough is only counted up, which needs no number to
        -- be read or written.
        local remembered = call('PTTL', counter)
        local vote = type(remembered) == 'number' and remembered >= tonumber(words[3]) and call('INCR', counter)
        local is_number = type(vote) == 'number'
        if is_number and vote > minimum_token and vote <= largest_counter then
          local done = call('HSET', resource, owner, '1')
          if done == 1 then
            done = call('PEXPIRE', resource, ttl)
            if done ~= 1 and call('HDEL', resource, owner) ~= 1 then
              call('DEL', resource)
            end
          end
          answer = done == 1 and vote or { 'error', type(done) == 'table' and done.err or tostring(done) }
        elseif is_number then
          call('DECR', counter)
        end
      elseif fields == 1 and has_signs and call('EXISTS', $QUEUE .. resource .. '}') == 0 then
        -- A client that is refused will wait, so it leaves a mark. The sign that there are marks
        -- has to outlive it.
        local holder, remaining = call('HGETALL', resource)[1], call('PTTL', resource)
        local number, max_ttl = holder ~= owner and call('GET', counter), tonumber(string.match(words[4], ' (%d+) '))
        local lasts = call('PTTL', $ANY)
        local is_signed = type(lasts) == 'number' and lasts >= max_ttl
        number = type(number) == 'string' and find(number, '^[1-9]%d*$') and tonumber(number)
        local is_plain = holder and #holder <= 128 and type(remaining) == 'number' and remaining >= 0
        if is_plain and number and number <= largest_counter and is_signed then
          if remaining > 0 then
            -- Where it cannot be written, the answer is the same.
            call('SET', $MARK .. resource .. '}', '1', 'PX', math.min(remaining, max_ttl))
          end
          answer = { 'held', 0, holder, remaining, number }
        end
      end
    end
  end

  local count, first = 1, at + 1
  if not arity then
    node = node or define(braced)
    node.need(name)
    count, first, arity = words[first], first + 1, node.arity[name]
  end
  if not answer then
    node = node or define(braced)
    local arguments
    if name == 'release' then
      name, arguments = 'unlock_any', { owner, '10' }
    elseif name == 'release_late' then
      name, arguments = 'unlock_any', { owner, '11' }
    elseif name == 'lock' then
      name, arguments = 'lock_any', { owner, words[first + 1], '0' }
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
