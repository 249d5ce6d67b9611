-- withdraw.lua  KEYS one resource  ARGV waiter  ->  withdrawn
node.arity.withdraw = 1
function node.withdraw(resources, waiter)
  node.leave_queue(resources[1], waiter)
  -- The waiter may have been woken and have left, or have had the vote and given it back: then no
  -- other has been woken. To wake is best effort: without it, the next comes by itself.
  pcall(node.wake_next, resources[1])
  return { 'withdrawn' }
end
