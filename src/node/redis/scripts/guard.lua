-- guard.lua  ->  the decision whether the node may vote

-- A stamp is the digest of a fingerprint (16 digits), a slash, and the first 16 digits of each of the two
-- ids of the incarnation. The metadata contains the stamp beside the full fingerprint and incarnation, so
-- that calls carry only the stamp.
function node.digest(stamp)
  return string.sub(stamp, 1, 16)
end

function node.incarnation_in(stamp)
  return string.sub(stamp, 17)
end

-- Returns the server's incarnation, or false if the user may not read it. The run_id is new with every
-- start, the replication id with every promotion. The plain searches are several times as fast as patterns.
function node.incarnation()
  if node.known_incarnation == nil then
    local server, replication = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'replication')
    local run_id, replication_id
    if type(server) == 'string' and type(replication) == 'string' then
      local _, name_end = string.find(server, 'run_id:', 1, true)
      run_id = name_end and string.match(server, '^%x+', name_end + 1)
      _, name_end = string.find(replication, 'master_replid:', 1, true)
      replication_id = name_end and string.match(replication, '^%x+', name_end + 1)
    end
    node.known_replication = replication
    node.known_incarnation = run_id and replication_id and run_id .. '/' .. replication_id or false
  end
  return node.known_incarnation
end

-- Returns the abstention of a node that must not vote, else nil. In quarantine, `renewals_from` is the
-- time, by the node's clock, after which renewals count.
function node.abstention()
  local guard, metadata = node.guard, node.metadata()
  if guard == 'off' then
    return nil
  end
  -- The metadata must name the incarnation in which the connection registered, or with the guard `vote`, the
  -- present incarnation of the server.
  local is_registered
  if metadata.stamp == '' then
    is_registered = false
  elseif guard == 'vote' then
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

-- Returns the fingerprint of the node if the client is of another quorum, else a false value.
function node.other_quorum()
  local metadata = node.metadata()
  -- Without a stamp, the node abstains, so that the client registers again, which compares the whole fingerprint.
  local is_comparable = metadata.stamp ~= '' or node.guard == 'off'
  return is_comparable and node.digest(metadata.stamp) ~= node.digest(node.stamp) and metadata.fingerprint
end

-- Refuses the clients of another quorum.
function node.admit()
  local fingerprint = node.other_quorum()
  if fingerprint then
    node.refuse({ 'wrong_quorum', fingerprint })
  end
end

-- Records that a quorum existed before, because a renewal arrived. A node that forgot this quorum must not
-- become a node of a new quorum by `init`.
function node.note_quorum()
  local metadata = node.metadata()
  local is_empty = not metadata.fingerprint and node.guard ~= 'off' and not metadata.is_new
  if is_empty or (metadata.is_new == '1' and node.flags().is_quarantined) then
    redis.call('HSET', $METADATA, 'new', '0')
    node.known_metadata = false
  end
end

-- Refuses the clients of another quorum, and every client if the node must not vote.
function node.may_vote()
  node.admit()
  local abstains = node.abstention()
  if abstains then
    node.refuse(abstains)
  end
end

-- Returns the state of the resources before a lock. Refuses if the node must not vote, or has a
-- tombstone of the lease.
function node.look_up_to_lock(resources, lease_id, from)
  node.may_vote()
  if node.has_any_tombstone(resources, lease_id) then
    node.refuse({ 'tombstone' })
  end
  return node.look_up(resources, lease_id, from)
end
