-- write_back.lua  KEYS resources  ARGV owner, token  ->  written_back | not_written_back counter
node.arity.write_back = 2
function node.write_back(resources, owner, token)
  node.may_vote()
  token = node.integer(token)
  local seen = node.look_up(resources, owner)
  if not seen.is_all_ours or node.largest_or_start(seen) > token then
    return { 'not_written_back', seen.largest }
  end
  for _, counter in ipairs(seen.counters) do
    node.count(counter, token)
  end
  return { 'written_back' }
end
