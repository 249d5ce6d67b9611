-- inspect.lua  KEYS one resource  ->  inspected counter run_id|false [owner holds remaining]
local function inspect(resources)
  local held = holder(resources[1])
  local counter = counters_of(resources).largest
  if not held then
    return { 'inspected', counter, run_id() }
  end
  return { 'inspected', counter, run_id(), held.owner, held.holds, held.ttl }
end
