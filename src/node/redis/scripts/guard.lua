-- guard.lua  ->  whether the node may vote

-- A stamp is the digest of a fingerprint (16 digits) and the incarnation in short: the first 16 digits
-- of each of its two ids, behind a slash. The metadata has the stamp beside the two whole texts, so
-- that a call need not carry them.
function node.digest(stamp)
  return string.sub(stamp, 1, 16)
end

function node.incarnation_in(stamp)
  return string.sub(stamp, 17)
end

-- The server's incarnation: the run_id is new with every start, the replication id with every
-- promotion. False if the user may not know.
function node.incarnation()
  if node.known_incarnation == nil then
    local server, replication = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'replication')
    local is_told = type(server) == 'string' and type(replication) == 'string'
    local run_id = is_told and string.match(server, 'run_id:(%x+)')
    local replication_id = run_id and string.match(replication, 'master_replid:(%x+)')
    node.known_incarnation = replication_id and run_id .. '/' .. replication_id or false
  end
  return node.known_incarnation
end

-- Why the node must not vote, nil if it may; in quarantine also from when it counts for renewals,
-- by its clock.
function node.abstention()
  local guard, metadata = node.guard, node.metadata()
  if guard == 'off' then
    return nil
  end
  -- The metadata has to be of the incarnation of the connection, or of the server.
  local is_registered
  if guard == 'vote' then
    is_registered = node.incarnation() and metadata.incarnation == node.incarnation()
  else
    is_registered = metadata.stamp == node.stamp
      or node.incarnation_in(metadata.stamp) == node.incarnation_in(node.stamp)
  end
  if not is_registered then
    return { 'abstains' }
  end
  local renewals_from = node.flags().is_quarantined and redis.call('GET', $QUARANTINE)
  if not renewals_from then
    return nil
  end
  local remaining = math.max(redis.call('PTTL', $QUARANTINE), 0)
  return { 'abstains', remaining, renewals_from = tonumber(renewals_from) or 0 }
end

-- Refuses the clients of another quorum.
function node.admit()
  local metadata = node.metadata()
  if metadata.fingerprint and metadata.stamp ~= node.stamp and node.digest(metadata.stamp) ~= node.digest(node.stamp) then
    node.refuse({ 'wrong_quorum', metadata.fingerprint })
  end
end

-- A renewal shows that there was a quorum before: a node that has no lock of it because it forgot
-- is none for a new one.
function node.note_quorum()
  local metadata = node.metadata()
  local is_empty = not metadata.fingerprint and node.guard ~= 'off' and not metadata.is_new
  if is_empty or (metadata.is_new == '1' and node.flags().is_quarantined) then
    redis.call('HSET', $METADATA, 'new', '0')
    node.known_metadata = false
  end
end

function node.may_vote()
  node.admit()
  local abstains = node.abstention()
  if abstains then
    node.refuse(abstains)
  end
end

-- All that has to be known of the resources before they are locked, or why they are not, whatever is
-- there: the node must not vote, or the owner was unlocked here before.
function node.look_up_to_lock(resources, owner, writer)
  node.may_vote()
  if node.has_any_tombstone(resources, owner) then
    node.refuse({ 'tombstone' })
  end
  return node.look_up(resources, owner, writer)
end
