-- common.lua  ARGV[1] fingerprint  ARGV[2] guard  ARGV[3] max ttl  ARGV[4] counter ttl  ARGV[5] run  ->  what all operations need
--
-- A server runs the whole script at every call, and to define a function costs it about as much as to read a key. So most
-- are defined only when something is asked for that needs them, and all are fields of one table: each local that is used in
-- a function would cost more than the function itself. The table knows all names that come first, for growing costs as well.
local node = {
  largest_counter = 9007199254740991,
  -- How many arguments each operation has.
  arity = { lock = 3, raise = 2, renew = 4, unlock = 4, line_up = 6, withdraw = 1 },
  usable = false,
  named = false,
  record = false,
  has_sign = false,
  is_gone = false,
  need = false,
  lock = false,
  unlock = false,
  define_takers = false,
  define_others = false,
  -- What was read already.
  known_record = false,
  known_signs = false,
}

-- Lua reads ' 7', '7e0' and '0x7' as numbers; a counter is none of them, nor what doubles do not tell from its
-- neighbours. Nil for what is none.
function node.usable(text)
  local number = (text == '0' or string.find(text, '^[1-9]%d*$')) and tonumber(text)
  return number and number <= node.largest_counter and number or nil
end

-- A name that is derived from a resource's, by Redisson's rule: no braces of ours where it has one.
function node.named(prefix, resource)
  if string.find(resource, '{', 1, true) then
    return prefix .. resource
  end
  return prefix .. '{' .. resource .. '}'
end

function node.record()
  if not node.known_record then
    local run, floor, fingerprint = unpack(redis.call('HMGET', 'redquorum:node', 'run', 'floor', 'fingerprint'))
    local is_known = run or floor or fingerprint
    node.known_record = { run = run, floor = floor or '0', fingerprint = is_known and (fingerprint or '') }
  end
  return node.known_record
end

-- Whether there is a quarantine, or any tombstone. Mostly there is neither, and one question answers for both.
function node.has_sign(name)
  local signs = node.known_signs
  if not signs then
    signs = { redis.call('EXISTS', 'redquorum:quarantine', 'redquorum:gone:any') }
    node.known_signs = signs
  end
  if signs[1] ~= 0 and signs[name] == nil then
    signs[name] = redis.call('EXISTS', name) == 1
  end
  return signs[1] ~= 0 and signs[name]
end

function node.is_gone(resource, owner)
  local tombstone = node.has_sign('redquorum:gone:any') and node.named('redquorum:gone:', resource) .. ':' .. owner
  return tombstone and redis.call('EXISTS', tombstone) == 1
end

-- Sees to it that a function is defined.
function node.need(name)
  if not node[name] and not node.survey then
    node.define_takers()
  end
  if not node[name] then
    node.define_others()
  end
end
