-- withdraw.lua  KEYS one resource  ARGV waiter  ->  withdrawn
node.arity.withdraw = 1
function node.withdraw(resources, waiter)
  node.leave_queue(resources[1], waiter)
  -- The waiter may have been woken, or may have had the vote and rolled back. No other waiter has been woken then,
  -- so the next waiter is woken here. A failure of this wake is ignored, because the next waiter also attempts by
  -- its fallback poll.
  pcall(node.wake_next, resources[1])
  return { 'withdrawn' }
end
