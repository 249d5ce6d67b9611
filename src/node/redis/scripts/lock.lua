-- lock.lua  KEYS resources  ARGV owner, ttl, hint  ->  granted vote | held index owner remaining counter | gone
local function lock(resources, owner, ttl, hint)
  if is_gone(resources, owner) then
    return { 'gone' }
  end
  local seen = survey(resources, owner)
  local counters = counters_of(resources)
  if seen.other then
    return held_by_another(seen, counters)
  end
  -- A lock that arrives twice gets the same vote twice. But one that the node does not remember, or that is below the
  -- floor, is no vote to repeat.
  local floor = floor()
  local is_resend = seen.is_all_ours and not counters.is_any_missing and counters.largest >= floor
  local vote = counters.largest
  if not is_resend then
    local below = math.max(largest_or_start(counters), floor, moved_by_hint(tonumber(hint)))
    if below >= largest_counter then
      refuse({ 'counter', text_of(below) })
    end
    vote = below + 1
  end
  local values = {}
  for i = 1, #resources do
    values[i] = vote
  end
  own(resources, owner, seen, values, not is_resend and '1' or nil, ttl)
  return { 'granted', vote }
end
