-- init.lua  ARGV real 0|1, time  ->  enrolled run|false [quarantine] | known fingerprint | no_run_id | clock_off by | fault READONLY
function node.init(_, real, time_of_client)
  local record = node.record()
  local is_in_first_quarantine = record.is_new == '1' and record.fingerprint == node.fingerprint
    and node.run() and record.run == node.run() and node.signs().is_quarantined
  if record.is_new == '0' or (record.fingerprint and not is_in_first_quarantine) then
    return { 'known', record.fingerprint or node.fingerprint }
  end
  node.check_server(time_of_client)
  if real == '1' then
    -- The record first, with the floor of a new node: what a fault in between leaves waits out its
    -- quarantine.
    node.write_record(0, '0')
    if redis.call('DEL', 'redquorum:quarantine') == 1 then
      node.known_signs = false
    end
  end
  return node.enrolled()
end
