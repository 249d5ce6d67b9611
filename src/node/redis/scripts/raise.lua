-- raise.lua  KEYS resources  ARGV owner, token  ->  raised | not_raised counter
local function raise(resources, owner, token)
  token = integer(token)
  local seen = survey(resources, owner)
  local counters = counters_of(resources)
  if not seen.is_all_ours or largest_or_start(counters) > token then
    return { 'not_raised', counters.largest }
  end
  for _, resource in ipairs(resources) do
    count(resource, token)
  end
  return { 'raised' }
end
