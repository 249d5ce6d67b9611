-- inspect.lua  KEYS one resource  ->  inspected counter [owner holds remaining]
local function inspect(resources)
  local held = holder(resources[1])
  local counter = counters_of(resources).largest
  if not held then
    return { 'inspected', counter }
  end
  return { 'inspected', counter, held.owner, held.holds, held.ttl }
end
