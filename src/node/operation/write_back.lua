-- write_back.lua  KEYS resources  ARGV lease id, token  ->  written_back | not_written_back counter | abstains
node.arity.write_back = 2
function node.write_back(resources, lease_id, token)
  node.may_vote()
  token = node.integer(token)
  local seen = node.look_up(resources, lease_id)
  -- If the token is below the minimum token, the node may have confirmed the token for another lease,
  -- which the node has forgotten.
  local minimum_token = node.integer(node.metadata().minimum_token)
  local may_stand, all_readers = seen.is_all_ours and minimum_token <= token, seen.readers or {}
  for i = 1, #resources do
    -- While readers hold the resource, no writer has a token above the phase, so the phase is compared in place of
    -- the counter.
    local readers = all_readers[i]
    may_stand = may_stand and (readers and readers.phase or seen.found[i] or node.start()) <= token
  end
  if not may_stand then
    return { 'not_written_back', seen.largest }
  end
  for i = 1, #resources do
    node.count(seen.counters[i], math.max(seen.found[i] or node.start(), token))
  end
  for i, readers in pairs(all_readers) do
    if readers.epoch < token then
      node.write_epoch(resources[i], readers.phase, token)
    end
  end
  return { 'written_back' }
end
