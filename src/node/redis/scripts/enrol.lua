-- enrol.lua  ARGV admits new 0|1, time, quarantine, renewals after  ->  enrolled run|false [quarantine] | no_run_id | clock_off by | fault READONLY
function node.enrol(_, admits_new, time_of_client, lasts, renewals_after)
  node.admit()
  if node.guard ~= 'off' and not node.run() then
    return { 'no_run_id' }
  end
  -- Not even where the record is this run's: a replica that has yet to reach its master still has its own data, and will
  -- have its master's.
  local replication = redis.pcall('INFO', 'replication')
  if type(replication) == 'string' and string.find(replication, 'role:slave', 1, true) then
    return { 'fault', 'READONLY a replica cannot enrol' }
  end
  -- Before anything is written: a floor that is far ahead would stay.
  local gap = math.abs(node.milliseconds() - tonumber(time_of_client))
  if gap > 3600000 then
    return { 'clock_off', gap }
  end
  local is_known = node.record().fingerprint
  local is_of_this_run = node.run() and node.record().run == node.run()
  local is_trusted = node.guard == 'off' or (not is_known and admits_new == '1')
  if not is_known or not (is_of_this_run or is_trusted) then
    -- Above every vote that was given until now, for a node that may have forgotten them. The floor of a new node stays:
    -- with votes from the next second on, they would be above the floor that a restart within this second sets.
    local floor = node.integer(node.record().floor)
    -- The quarantine first: what a fault in between leaves is a node that abstains for nothing.
    if not is_trusted then
      floor = math.max(floor, node.start() + 1000000)
      redis.call('SET', 'redquorum:quarantine', node.text_of(node.milliseconds() + tonumber(renewals_after)), 'PX', lasts)
      node.known_signs = false
    end
    node.write_record(floor)
  end
  return node.enrolled()
end
