-- enrol.lua  ARGV new nodes: quarantine|admit|leave, time, quarantine, renewals after  ->  enrolled run|false [quarantine] | no_run_id | clock_off by | fault READONLY
function node.enrol(_, new_nodes, time_of_client, lasts, renewals_after)
  node.admit()
  node.check_server(time_of_client)
  local record = node.record()
  local is_known = record.fingerprint
  if not is_known and new_nodes == 'leave' then
    return node.enrolled()
  end
  local is_of_this_run = node.run() and record.run == node.run()
  local is_trusted = node.guard == 'off' or (not is_known and new_nodes == 'admit')
  if not is_known or not (is_of_this_run or is_trusted) then
    -- Above every vote that was given until now, for a node that may have forgotten them. The floor
    -- of a new node stays: with votes from the next second on, they would be above the floor that a
    -- restart within this second sets.
    local floor, is_new = node.integer(record.floor), false
    -- The quarantine first: what a fault in between leaves is a node that abstains for nothing.
    if not is_trusted then
      floor = math.max(floor, node.start() + 1000000)
      is_new = not is_known and not record.is_new
      redis.call('SET', 'redquorum:quarantine', node.text_of(node.milliseconds() + tonumber(renewals_after)), 'PX', lasts)
      node.known_signs = false
    end
    node.write_record(floor, is_new and '1' or '0')
  end
  return node.enrolled()
end
