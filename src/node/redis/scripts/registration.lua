-- registration.lua  ->  functions that register, init and reconfigure share

-- Refuses the operation if the server cannot be a node of this client.
function node.check_server(time_of_client)
  if not node.incarnation() and node.guard ~= 'off' then
    local info = redis.pcall('INFO', 'server')
    node.refuse({ 'no_run_id', type(info) == 'table' and info.err or nil })
  end
  -- A replica is refused even if the metadata names this incarnation: until the replica reaches its master, the
  -- replica has its own data, which the data of the master will replace.
  local replication = node.known_replication
  if type(replication) == 'string' and string.find(replication, 'role:slave', 1, true) then
    node.refuse({ 'error', 'READONLY a replica cannot register' })
  end
  -- The check precedes every write: with a wrong clock, the node could write a minimum token far ahead, which
  -- would stay.
  local ahead = node.milliseconds() - tonumber(time_of_client)
  if math.abs(ahead) > 3600000 then
    node.refuse({ 'clock_off', math.abs(ahead), ahead > 0 and 1 or 0 })
  end
end

-- Returns the new minimum token of a node that may have forgotten votes, which is at least every vote until now, plus a
-- margin for the votes of another server.
function node.raised_minimum_token(metadata, margin)
  return math.max(node.integer(metadata.minimum_token), node.start() + 1000000 + (margin or 0))
end

function node.begin_quarantine(lasts, renewals_after)
  redis.call('SET', $QUARANTINE, node.format_integer(node.milliseconds() + tonumber(renewals_after)), 'PX', lasts)
  node.known_flags = false
end

-- Returns the stamp of a digest and an incarnation.
function node.stamp_of(digest, incarnation)
  local run_id, replication_id = string.match(incarnation, '^([^/]*)/?(.*)$')
  return digest .. '/' .. string.sub(run_id, 1, 16) .. string.sub(replication_id, 1, 16)
end

-- `is_new` is 1 for a node that was never in a quorum, else 0.
function node.write_metadata(fingerprint, minimum_token, is_new)
  local incarnation = node.incarnation() or ''
  redis.call('HSET', $METADATA, 'stamp', node.stamp_of(node.digest(node.stamp), incarnation), 'incarnation', incarnation,
    'minimum_token', node.format_integer(minimum_token), 'fingerprint', fingerprint, 'new', is_new)
  node.known_metadata = false
end

-- Returns the answer to a registration.
function node.registered()
  local is_quarantined = redis.call('EXISTS', $QUARANTINE) == 1
  return { 'registered', node.incarnation(), is_quarantined and math.max(redis.call('PTTL', $QUARANTINE), 0) or nil }
end
