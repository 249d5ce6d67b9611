-- reading.lua  ARGV[1] fingerprint  ARGV[2] guard  ARGV[3] max ttl  ARGV[4] counter ttl  ARGV[5] run  ->  what the node knows
local fingerprint, guard, max_ttl, counter_ttl, run_of_connection = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Above this, doubles no longer tell neighbours apart.
local largest_counter = 9007199254740991
local steps_per_second = 1000000
local hint_ahead = 3600

-- Ends the entry that is being executed, and no other, with this answer.
local function refuse(answer)
  error(answer, 0)
end

local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    refuse({ 'fault', reply.err })
  end
  return reply
end

-- Lua's own conversion would round to 14 digits.
local function text_of(number)
  return string.format('%.0f', number)
end

-- Lua reads ' 7', '7e0' and '0x7' as numbers; a counter is none of them.
local function integer(text)
  local number = (text == '0' or string.find(text, '^[1-9]%d*$')) and tonumber(text)
  if not number or number > largest_counter then
    refuse({ 'counter', string.sub(text, 1, 64) })
  end
  return number
end

local time
local function node_time()
  time = time or call('TIME')
  return time
end

local function node_seconds()
  return tonumber(node_time()[1])
end

local function milliseconds()
  return node_seconds() * 1000 + math.floor(tonumber(node_time()[2]) / 1000)
end

-- What a missing counter counts as.
local function start()
  return node_seconds() * steps_per_second
end

local function moved_by_hint(hint)
  if hint == 0 then
    return 0
  end
  return math.min(hint - 1, (node_seconds() + hint_ahead) * steps_per_second)
end

local record
local function node_record()
  if not record then
    local fields = call('HMGET', record_name, 'run', 'floor', 'fingerprint')
    local is_known = fields[1] or fields[2] or fields[3]
    record = { run = fields[1], floor = fields[2] or '0', fingerprint = is_known and (fields[3] or '') }
  end
  return record
end

local function floor()
  return integer(node_record().floor)
end

local function is_gone(resources, owner)
  for _, resource in ipairs(resources) do
    if call('EXISTS', tombstone_name(resource, owner)) == 1 then
      return true
    end
  end
  return false
end

-- Whoever holds a resource, false if it is free. The owner of a key with several fields is nobody's to know: it is a
-- lock of some other kind.
local function holder(resource)
  local fields = call('HLEN', resource)
  if fields == 0 then
    return false
  end
  local held = { owner = false, holds = '0', ttl = call('PTTL', resource) }
  if fields == 1 then
    local field = call('HGETALL', resource)
    held.owner, held.holds = field[1] or false, field[2] or '0'
  end
  return held
end

-- Of the resources that others hold, the one that is held longest is told. A key without a ttl would be waited for for
-- ever: it counts as held for the longest ttl there is, and gets it as soon as somebody is refused because of it.
local function survey(resources, owner)
  local seen = { holders = {}, endless = {}, is_all_ours = true }
  for i, resource in ipairs(resources) do
    local held = holder(resource)
    seen.holders[i] = held
    if not held or held.owner ~= owner then
      seen.is_all_ours = false
    end
    if held and held.owner ~= owner then
      local remaining = held.ttl
      if remaining < 0 then
        remaining = tonumber(max_ttl)
        table.insert(seen.endless, resource)
      end
      if not seen.other or remaining > seen.other.remaining then
        seen.other = { index = i - 1, owner = held.owner, remaining = remaining }
      end
    end
  end
  return seen
end

local function held_by_another(seen, counters)
  for _, resource in ipairs(seen.endless) do
    call('PEXPIRE', resource, max_ttl)
  end
  return { 'held', seen.other.index, seen.other.owner, seen.other.remaining, counters.largest }
end

local function counter_of(resource)
  local text = call('GET', counter_name(resource))
  return text and integer(text)
end

local function counters_of(resources)
  local counters = { found = {}, largest = 0, is_any_missing = false }
  for i, resource in ipairs(resources) do
    local counter = counter_of(resource)
    counters.found[i] = counter
    counters.is_any_missing = counters.is_any_missing or not counter
    counters.largest = math.max(counters.largest, counter or 0)
  end
  return counters
end

local function largest_or_start(counters)
  if counters.is_any_missing then
    return math.max(counters.largest, start())
  end
  return counters.largest
end
