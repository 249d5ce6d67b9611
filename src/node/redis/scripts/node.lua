-- node.lua  ->  the table `node`, which the general paths of all operations share
--
-- Defining a function costs a server about as much as reading a key. Therefore a function that only some
-- operations need is defined when the first of these operations is executed.
local guard, max_ttl, hand_over = string.match(ARGV[3], '^(%S+) (%d+) (%d+)$')
local node = {
  largest_counter = 9007199254740991,
  -- The arguments of the call.
  stamp = ARGV[1],
  counter_ttl = tonumber(ARGV[2]),
  guard = guard,
  max_ttl = tonumber(max_ttl),
  hand_over = tonumber(hand_over),
  -- The number of arguments of each operation, set in the file of the operation.
  arity = {},
}

-- Defines a function unless it is defined. The name `share` stands for all functions of readers, and
-- `wake_next` for all functions of the wait queue.
function node.require_functions(name)
  if not node[name] then
    node.define(name)
  end
end
