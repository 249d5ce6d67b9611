-- raise.lua  KEYS resources  ARGV owner, token  ->  raised | not_raised counter
function node.raise(resources, owner, token)
  node.may_vote()
  token = node.integer(token)
  local seen = node.survey(resources, owner)
  if not seen.is_all_ours or node.largest_or_start(seen) > token then
    return { 'not_raised', seen.largest }
  end
  for _, counter in ipairs(seen.counters) do
    node.count(counter, token)
  end
  return { 'raised' }
end
