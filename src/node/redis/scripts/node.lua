-- node.lua  ->  what the general ways of all operations have in common
--
-- To define a function costs a server about as much as to read a key. So what only some operations
-- need is defined when one of those is asked for.
local guard, max_ttl, hand_over = string.match(ARGV[3], '^(%S+) (%d+) (%d+)$')
local node = {
  largest_counter = 9007199254740991,
  -- What comes with the call.
  stamp = ARGV[1],
  counter_ttl = tonumber(ARGV[2]),
  guard = guard,
  max_ttl = tonumber(max_ttl),
  hand_over = tonumber(hand_over),
  -- How many arguments each operation has: its own file says so.
  arity = {},
}

-- Sees to it that a function is defined; `share` stands for all those of readers, and `wake_next`
-- for those of the wait queue.
function node.require_functions(name)
  if not node[name] then
    node.define(name)
  end
end
