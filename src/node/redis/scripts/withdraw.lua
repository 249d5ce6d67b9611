-- withdraw.lua  KEYS one resource  ARGV waiter  ->  withdrawn
function node.withdraw(resources, waiter)
  node.leave_line(resources[1], waiter)
  -- Perhaps it was called and left, or had the vote and gave it back: then nobody else is. To call
  -- is a kindness: without it, the next comes by itself.
  if not node.holder(resources[1]) then
    pcall(node.next_in_line, resources[1])
  end
  return { 'withdrawn' }
end
