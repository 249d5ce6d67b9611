-- node.lua  ->  the table `node`, which the general paths of all operations share
--
-- Defining a function costs a server about as much as reading a key. So a function that only some
-- operations need is defined with the first of these.
local guard, max_ttl, hand_over = string.match(ARGV[3], '^(%S+) (%d+) (%d+)$')
local node = {
  largest_counter = 9007199254740991,
  -- The arguments of the call.
  stamp = ARGV[1],
  counter_ttl = tonumber(ARGV[2]),
  guard = guard,
  max_ttl = tonumber(max_ttl),
  hand_over = tonumber(hand_over),
  -- The number of arguments of each operation, which its own file sets.
  arity = {},
}

-- Defines a function unless it is defined. `share` represents all functions of readers, `wake_next`
-- those of the wait queue.
function node.require_functions(name)
  if not node[name] then
    node.define(name)
  end
end
