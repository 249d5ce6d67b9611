-- dispatch.lua  KEYS resources of all entries  ARGV fingerprint, run, counter ttl, guard and max ttl, entries ...  ->  answers
--
-- An entry is an operation, the number of its resources, and its arguments. What is asked for most, to lock, to unlock and
-- to renew one resource, comes without the number and has a short way here: in as few steps as can be, and without any
-- function. What it finds out of the ordinary is left to `lock_any` and its like, before it writes anything but the counter
-- of a lock, which it counts up first and down again.
--
--   lock    owner, ttl, hint|-         unlock  owner, token, kind: real 0|1 and leave 0|1 unless all was deleted|2
--   renew   owner, holds, ttl, token
--
-- The hint `-` is none, of a client that knows that the counter is remembered for long enough.
local largest_counter = 9007199254740991
local node, floor, has_signs, may_expire
local answers, next_key, next_argument = {}, 1, 5
while next_argument <= #ARGV do
  local name, owner, resource = ARGV[next_argument], ARGV[next_argument + 1], KEYS[next_key]
  local arity, answer, braced, is_usual

  if name == 'lock' or name == 'renew' then
    -- The floor of a node that votes: its record is of this quorum and of the run that the connection knows, and there is no
    -- quarantine. Mostly there is no tombstone and no line either, and one question answers all.
    if floor == nil then
      local record = redis.pcall('HMGET', 'redquorum:node', 'fingerprint', 'run', 'floor')
      floor = record[1] == ARGV[1] and record[2] == ARGV[2] and record[3]
      floor = floor and (floor == '0' or string.find(floor, '^[1-9]%d*$')) and tonumber(floor)
      has_signs = redis.pcall('EXISTS', 'redquorum:quarantine', 'redquorum:any') ~= 0
      floor = not (has_signs and redis.pcall('EXISTS', 'redquorum:quarantine') ~= 0) and floor
    end
    braced = string.find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
    is_usual = floor and not (has_signs and redis.pcall('EXISTS', 'redquorum:gone:' .. braced .. ':' .. owner) ~= 0)
  end

  if name == 'lock' then
    arity = 3
    local ttl, hint, counter = ARGV[next_argument + 2], ARGV[next_argument + 3], 'redisson_lock_token:' .. braced
    local fields = is_usual and redis.pcall('HLEN', resource)
    if fields == 0 then
      -- A counter that is remembered for long enough is only counted up, which needs no number to be read or written.
      local is_relock = hint == '-'
      local remembered = is_relock or redis.pcall('PTTL', counter)
      local is_fresh = is_relock or (type(remembered) == 'number' and remembered >= 1.25 * tonumber(ARGV[3]))
      local vote = is_fresh and redis.pcall('INCR', counter)
      local is_vote = type(vote) == 'number' and vote > floor and vote <= largest_counter
      if is_relock then
        -- The first number there is shows that the counter was lost since.
        is_vote = is_vote and vote ~= 1
      else
        is_vote = is_vote and vote >= tonumber(hint)
      end
      if is_vote then
        -- In the order of `own`, for its reasons: without the first, the last might be found forbidden too late. Once for
        -- all entries of a call: whoever may expire one key that it may write may expire any.
        local done = may_expire or redis.pcall('PEXPIRE', resource, ttl)
        if type(done) ~= 'table' then
          may_expire, done = true, redis.pcall('HSET', resource, owner, '1')
        end
        if type(done) ~= 'table' then
          done = redis.pcall('PEXPIRE', resource, ttl)
        end
        answer = type(done) == 'table' and { 'fault', done.err } or vote
      elseif type(vote) == 'number' then
        redis.pcall('DECR', counter)
        if is_relock and vote == 1 then
          -- What was not there is not there again: without a ttl it would stay for ever, and be counted on from.
          local left = redis.pcall('PTTL', counter)
          if not (type(left) == 'number' and left >= 0) and redis.pcall('DEL', counter) ~= 1 then
            redis.pcall('PEXPIRE', counter, 0)
          end
        end
      end
    elseif fields == 1 then
      local holder, remaining = redis.pcall('HGETALL', resource)[1], redis.pcall('PTTL', resource)
      local number = holder ~= owner and redis.pcall('GET', counter)
      number = type(number) == 'string' and string.find(number, '^[1-9]%d*$') and tonumber(number)
      if holder and number and number <= largest_counter and type(remaining) == 'number' and remaining >= 0 then
        answer = { 'held', 0, holder, remaining, number }
      end
    end

  elseif name == 'unlock' then
    arity = 3
    local token, kind = ARGV[next_argument + 2], ARGV[next_argument + 3]
    braced = string.find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
    is_usual = kind ~= '02' and kind ~= '12'
    is_usual = is_usual and (token == '0' or redis.pcall('GET', 'redisson_lock_token:' .. braced) == token)
    if is_usual and has_signs == nil then
      has_signs = redis.pcall('EXISTS', 'redquorum:any') ~= 0
    end
    is_usual = is_usual and not (has_signs and redis.pcall('EXISTS', 'redquorum:line:{' .. resource .. '}') ~= 0)
    if is_usual and redis.pcall('HDEL', resource, owner) == 1 then
      local is_real = kind == '10' or kind == '11'
      local heard = is_real and redis.pcall('PUBLISH', 'redisson_lock__channel:' .. braced, '0') or 0
      answer = type(heard) == 'table' and { 'fault', heard.err } or heard > 0 and { 'awaited', 1, heard } or 1
    end

  elseif name == 'renew' then
    arity = 4
    local holds, ttl, token = ARGV[next_argument + 2], ARGV[next_argument + 3], ARGV[next_argument + 4]
    local counter, number = 'redisson_lock_token:' .. braced, tonumber(token)
    is_usual = is_usual and floor <= number and number <= largest_counter and redis.pcall('HLEN', resource) == 1
    -- A counter at the token, which lives for long enough, needs no number to be read or written.
    is_usual = is_usual and redis.pcall('HMGET', resource, owner)[1] == holds and redis.pcall('GET', counter) == token
    local remembered = is_usual and redis.pcall('PTTL', counter)
    if type(remembered) == 'number' and remembered >= 1.25 * tonumber(ARGV[3]) then
      local remaining = redis.pcall('PTTL', resource)
      if type(remaining) == 'number' and remaining < tonumber(ttl) then
        remaining = redis.pcall('PEXPIRE', resource, ttl)
      end
      answer = type(remaining) == 'table' and { 'fault', remaining.err } or 1
    end
  end

  local count, first = 1, next_argument + 1
  if not arity then
    node = node or define()
    count, first, arity = ARGV[first], first + 1, node.arity[name]
  elseif not answer then
    node = node or define()
    name = name .. '_any'
  end
  if not answer then
    node.need(name)
    local resources = { unpack(KEYS, next_key, next_key + count - 1) }
    local is_done, result = pcall(node[name], resources, unpack(ARGV, first, first + arity - 1))
    -- Of the errors, tables are answers, unless they are those of commands; before version 7, those are texts.
    if not is_done and (type(result) ~= 'table' or result.err) then
      result = { 'fault', type(result) == 'table' and result.err or tostring(result) }
    end
    answer = result
    -- What the node is may be another by now.
    floor, has_signs = nil, nil
  end
  answers[#answers + 1] = answer
  next_key, next_argument = next_key + count, first + arity
end
return answers
