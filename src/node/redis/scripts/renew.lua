-- renew.lua  KEYS resources  ARGV owner, holds, ttl, token  ->  renewed proves | healed [remaining] | held index owner remaining counter | gone
local function renew(resources, owner, holds, ttl, token)
  token = integer(token)
  if is_gone(resources, owner) then
    return { 'gone' }
  end
  local seen = survey(resources, owner)
  local counters = counters_of(resources)
  if seen.other then
    return held_by_another(seen, counters)
  end
  -- A counter that is missing may have been above the token; so may one that the node forgot, hence the floor.
  local proves = not counters.is_any_missing and counters.largest <= token and floor() <= token
  -- Where the counter was lost, it comes back above the token: a node that forgot must not prove anything later either.
  local values = {}
  for i = 1, #resources do
    local found = counters.found[i]
    values[i] = found and math.max(found, token) or math.min(math.max(start(), token + 1), largest_counter)
  end
  own(resources, owner, seen, values, holds, ttl)
  return healed() or { 'renewed', proves and 1 or 0 }
end
