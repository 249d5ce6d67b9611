-- init.lua  ARGV fingerprint, is_real 0|1, time  ->  registered incarnation|false [quarantine] | already_registered fingerprint | no_run_id [error] | clock_off by | error READONLY
node.arity.init = 3
function node.init(_, fingerprint, is_real, time_of_client)
  local metadata = node.metadata()
  -- In its first quarantine, a node has given no vote, whatever the configuration of its first client. A node that
  -- is closed for a move belongs to this move.
  local is_closed = metadata.fingerprint and string.sub(metadata.fingerprint, 1, 11) == 'closed for '
  local is_in_first_quarantine = metadata.is_new == '1' and not is_closed
    and node.incarnation() and metadata.incarnation == node.incarnation() and node.flags().is_quarantined
  if metadata.is_new == '0' or (metadata.fingerprint and not is_in_first_quarantine) then
    return { 'already_registered', metadata.fingerprint or fingerprint }
  end
  node.check_server(time_of_client)
  if is_real == '1' then
    -- The metadata, with the minimum token of a new node, precedes the end of the quarantine. After an error in
    -- between, the node completes its quarantine.
    node.write_metadata(fingerprint, 0, '0')
    if node.flags().is_quarantined then
      redis.call('DEL', $QUARANTINE)
      node.known_flags = false
    end
  end
  return node.registered()
end
