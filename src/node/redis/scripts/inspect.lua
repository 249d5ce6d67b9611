-- inspect.lua  KEYS one resource  ->  inspected counter run|false fingerprint|false [owner holds remaining]
local function inspect(resources)
  local held = holder(resources[1])
  local counter = counters_of(resources).largest
  local fingerprint_of_record = node_record().fingerprint or false
  if not held then
    return { 'inspected', counter, run(), fingerprint_of_record }
  end
  return { 'inspected', counter, run(), fingerprint_of_record, held.owner, held.holds, held.ttl }
end
