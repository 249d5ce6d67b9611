-- guard.lua  ->  whether the node may vote

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
  local guard, this = node.guard, node.incarnation_of_connection
  if guard == 'off' then
    return nil
  end
  if guard == 'vote' then
    this = node.incarnation()
  end
  -- The metadata has to be of this incarnation.
  if not (this and node.metadata().incarnation == this) then
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
  local other = node.metadata().fingerprint
  if other and other ~= node.fingerprint then
    node.refuse({ 'wrong_quorum', other })
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
  if node.is_any_gone(resources, owner) then
    node.refuse({ 'gone' })
  end
  return node.look_up(resources, owner, writer)
end
