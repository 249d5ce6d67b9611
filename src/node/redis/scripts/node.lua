-- node.lua  ARGV[1] fingerprint  ARGV[2] guard  ARGV[3] max ttl  ARGV[4] counter ttl  ARGV[5] run  ->  what all operations need
--
-- A server runs the whole script at every call, and to define a function costs it about as much as to read a key. So most
-- are defined only when something is asked for that needs them, and all are fields of one table: each local that is used in
-- a function would cost more than the function itself. The table knows all names that come first, for growing costs as well.
local node = {
  largest_counter = 9007199254740991,
  -- How many arguments each operation has.
  arity = {
    lock = 3,
    unlock = 4,
    renew = 4,
    raise = 2,
    line_up = 6,
    withdraw = 1,
    force_unlock = 0,
    inspect = 0,
    proclaim = 6,
    observe = 0,
    enrol = 4,
    init = 0,
    reconfigure = 2,
  },
  usable = false,
  named = false,
  record = false,
  signs = false,
  is_gone = false,
  bury = false,
  need = false,
  lock = false,
  unlock = false,
  define_takers = false,
  define_others = false,
  -- What was read already.
  known_record = false,
  known_signs = false,
  may_expire = false,
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

-- Whether there is a quarantine, and whether there is any tombstone. Mostly there is neither, and one question answers both.
function node.signs()
  if not node.known_signs then
    local signs = redis.call('EXISTS', 'redquorum:quarantine', 'redquorum:gone:any')
    local quarantines = signs > 0 and redis.call('EXISTS', 'redquorum:quarantine') or 0
    node.known_signs = { is_quarantined = quarantines > 0, has_tombstones = signs > quarantines }
  end
  return node.known_signs
end

function node.is_gone(resource, owner)
  local tombstone = node.signs().has_tombstones and node.named('redquorum:gone:', resource) .. ':' .. owner
  return tombstone and redis.call('EXISTS', tombstone) == 1
end

-- Beside the tombstone stands a sign that there are any, which outlives them all, whoever's they are: where it is missing,
-- nobody needs to look for one. It lives so long that few tombstones have to prolong it.
function node.bury(resource, owner)
  redis.call('SET', node.named('redquorum:gone:', resource) .. ':' .. owner, '1', 'PX', ARGV[3])
  if redis.call('PTTL', 'redquorum:gone:any') < tonumber(ARGV[3]) then
    redis.call('SET', 'redquorum:gone:any', '1', 'PX', 2 * ARGV[3])
  end
  node.known_signs = false
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
