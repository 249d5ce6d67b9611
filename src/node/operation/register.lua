-- register.lua  ARGV fingerprint, new nodes: quarantine|admit|leave, time, quarantine, renewals after  ->  registered incarnation|false [quarantine] | no_run_id [error] | clock_off by | error READONLY
node.arity.register = 5
function node.register(_, fingerprint, new_nodes, time_of_client, lasts, renewals_after)
  local metadata = node.metadata()
  local is_known = metadata.fingerprint
  -- A lost or damaged stamp names no incarnation, so the node may have forgotten votes. The whole fingerprint
  -- still shows to which quorum the node belongs.
  local is_stamped = metadata.stamp == node.stamp_of(node.digest(metadata.stamp), metadata.incarnation or '')
  if is_stamped then
    node.admit()
  elseif is_known and is_known ~= fingerprint then
    node.refuse({ 'wrong_quorum', is_known })
  end
  node.check_server(time_of_client)
  if not is_known and new_nodes == 'leave' then
    return node.registered()
  end
  local is_of_this_incarnation = node.incarnation() and metadata.incarnation == node.incarnation()
  local is_trusted = node.guard == 'off' or (not is_known and new_nodes == 'admit')
  local is_current = is_known and is_stamped and (is_of_this_incarnation or is_trusted)
  if not is_current then
    -- The minimum token of a trusted node is not raised: the next votes of the node would exceed the raised minimum
    -- token. A restart within the same second would set the same minimum token, and the node could repeat these votes.
    local minimum_token, is_new = node.integer(metadata.minimum_token), false
    -- The quarantine precedes the metadata. An error in between then costs only a needless quarantine.
    if not is_trusted then
      minimum_token = node.raised_minimum_token(metadata)
      is_new = not is_known and not metadata.is_new
      node.begin_quarantine(lasts, renewals_after)
    end
    node.write_metadata(fingerprint, minimum_token, is_new and '1' or '0')
  end
  return node.registered()
end
