-- withdraw.lua  KEYS one resource  ARGV waiter  ->  withdrawn
local function withdraw(resources, waiter)
  leave_line(resources[1], waiter)
  -- Perhaps it was called and left, or had the vote and gave it back: then nobody else is.
  if not holder(resources[1]) then
    call_next(resources[1])
  end
  return { 'withdrawn' }
end
