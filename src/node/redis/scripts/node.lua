-- node.lua  ->  what the general ways of all operations have in common
--
-- To define a function costs a server about as much as to read a key. So what only some operations
-- need is defined when one of those is asked for.
local guard, max_ttl, hand_over = string.match(ARGV[4], '^(%S+) (%d+) (%d+)$')
local node = {
  largest_counter = 9007199254740991,
  -- What comes with the call.
  fingerprint = ARGV[1],
  incarnation_of_connection = ARGV[2],
  counter_ttl = tonumber(ARGV[3]),
  guard = guard,
  max_ttl = tonumber(max_ttl),
  hand_over = tonumber(hand_over),
  -- How many arguments each operation has.
  arity = {
    lock_any = 3,
    take = 3,
    unlock_any = 2,
    renew_any = 4,
    write_back = 2,
    enqueue = 8,
    withdraw = 1,
    force_unlock = 0,
    inspect = 0,
    proclaim = 6,
    observe = 0,
    register = 4,
    init = 2,
    reconfigure = 2,
  },
}

-- Sees to it that a function is defined.
function node.need(name)
  if not node[name] then
    node.define_others()
  end
end
