-- lock_any.lua  KEYS resources  ARGV owner, ttl, hint|-  ->  vote | held index owner remaining counter | gone
-- The hint `-` is none, of a client that knows that the counters are remembered for long enough.
function node.lock_any(resources, owner, ttl, hint)
  node.may_vote()
  if node.is_any_gone(resources, owner) then
    return { 'gone' }
  end
  local seen = node.survey(resources, owner)
  if seen.other then
    return node.held_by_another(seen)
  end
  -- A lock that arrives twice gets the same vote twice. But one that the node does not remember, or that is below the
  -- floor, is no vote to repeat.
  local floor = node.integer(node.record().floor)
  local is_resend = seen.is_all_ours and not seen.is_any_missing and seen.largest >= floor
  local vote = seen.largest
  if not is_resend then
    local below = math.max(node.largest_or_start(seen), floor)
    if hint ~= '0' and hint ~= '-' then
      -- At most an hour ahead.
      below = math.max(below, math.min(tonumber(hint) - 1, node.start() + 3600 * 1000000))
    end
    if below >= node.largest_counter then
      node.refuse({ 'counter', node.text_of(below) })
    end
    vote = below + 1
  end
  local values = {}
  for i = 1, #resources do
    values[i] = vote
  end
  node.own(resources, owner, seen, values, not is_resend and '1' or nil, ttl, hint == '-')
  return vote
end
