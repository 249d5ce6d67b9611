-- withdraw.lua  KEYS one resource  ARGV waiter  ->  withdrawn
node.arity.withdraw = 1
function node.withdraw(resources, waiter)
  node.leave_queue(resources[1], waiter)
  -- The waiter may have consumed a wake, or have had the vote and rolled back, so no other waiter has
  -- been woken. The wake is best effort, because the next waiter also attempts by its fallback poll.
  pcall(node.wake_next, resources[1])
  return { 'withdrawn' }
end
