-- observe.lua  KEYS one resource  ->  observed owner|false remaining|false, and owner term number value since, each or false
local function observe(resources)
  local held = holder(resources[1])
  local said = call('HMGET', leader_name(resources[1]), 'owner', 'term', 'number', 'value', 'since')
  return { 'observed', held and held.owner, held and held.ttl, unpack(said) }
end
