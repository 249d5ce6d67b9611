-- renew.lua  KEYS resources  ARGV lease id, holds, ttl, token  ->  1 | renewed 0 | with_waiters and one of these | renewed_in_quarantine [remaining] | held index lease_id remaining counter | tombstone
node.arity.renew_any = 4
function node.renew_any(resources, lease_id, holds, ttl, token, is_idle)
  -- A refused renewal, too, proves that a quorum existed before, which a new node may have forgotten.
  if node.other_quorum() then
    pcall(node.note_quorum)
  end
  node.admit()
  token = node.integer(token)
  if node.has_any_tombstone(resources, lease_id) then
    return { 'tombstone' }
  end
  local seen = node.look_up(resources, lease_id)
  if seen.other then
    return node.held_by_another(seen)
  end
  node.note_quorum()
  local minimum_token = node.integer(node.metadata().minimum_token)
  local proves, values, epochs = true, {}, {}
  for i = 1, #resources do
    -- The renewal proves that the node gave no vote above the token, if neither the counter nor the minimum token
    -- exceeds the token. A missing counter may have exceeded the token. The counters that the node has forgotten did
    -- not exceed the minimum token.
    local found, readers = seen.found[i], seen.readers and seen.readers[i]
    local is_below = minimum_token <= token and (readers and readers.phase or found or node.largest_counter + 1) <= token
    proves = proves and is_below
    -- A lost counter is written again with a value above the token, so that later renewals on this node prove
    -- nothing either.
    values[i] = found and math.max(found, token) or math.min(math.max(node.start(), token + 1), node.largest_counter)
    epochs[i] = is_below and token or 0
    -- If the node lost the readers, the renewal begins a new run. Its phase is the token, or above all votes if
    -- the node may have given a larger vote.
    if resources.is_shared and resources.is_shared[i] and not readers and not is_below then
      values[i] = math.min(math.max(values[i], minimum_token) + 1, node.largest_counter)
      epochs[i] = values[i]
    end
  end
  node.write_lease_id(resources, lease_id, seen, values, holds, ttl)
  for i, is_shared in pairs(resources.is_shared or {}) do
    if is_shared then
      local lasts = node.share(resources[i], lease_id, seen.readers[i], epochs[i], ttl)
      if not is_idle then
        node.extend_yield_mark(resources[i], lasts)
      end
    end
  end
  -- In quarantine, a renewal counts as a vote once every attempt is decided in which the node may have voted.
  local abstains = node.abstention()
  if abstains and not (abstains.renewals_from and node.milliseconds() > abstains.renewals_from) then
    return { 'renewed_in_quarantine', abstains[2] }
  end
  local has_waiters = false
  for i = 1, node.flags().is_dirty and #resources or 0 do
    has_waiters = has_waiters or node.has_queue(resources[i])
  end
  return node.with_waiters(proves and 1 or { 'renewed', 0 }, has_waiters)
end

-- Renews like `renew_any`, for readers for which no client waits. Extends no yield mark, because the client that
-- caused the mark has given up.
node.arity.renew_idle = 4
function node.renew_idle(resources, lease_id, holds, ttl, token)
  return node.renew_any(resources, lease_id, holds, ttl, token, true)
end
