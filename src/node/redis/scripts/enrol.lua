-- enrol.lua  ARGV admits new 0|1, time, quarantine, renewals after  ->  enrolled run|false [quarantine] | no_run_id | clock_off by | fault READONLY
local largest_gap = 3600000

local function enrol(_, admits_new, time_of_client, lasts, renewals_after)
  if guard ~= 'off' and not run() then
    return { 'no_run_id' }
  end
  -- Not even where the record is this run's: a replica that has yet to reach its master still has its own data, and will
  -- have its master's.
  if info('replication', 'role:(%a+)') == 'slave' then
    return { 'fault', 'READONLY a replica cannot enrol' }
  end
  -- Before anything is written: a floor that is far ahead would stay.
  local gap = math.abs(milliseconds() - tonumber(time_of_client))
  if gap > largest_gap then
    return { 'clock_off', gap }
  end
  local is_known = node_record().fingerprint
  local is_trusted = guard == 'off' or (not is_known and admits_new == '1')
  if not is_known or not (is_of(run()) or is_trusted) then
    local floor = floor_of(is_trusted)
    -- The quarantine first: what a fault in between leaves is a node that abstains for nothing.
    if not is_trusted then
      call('SET', quarantine_name, text_of(milliseconds() + tonumber(renewals_after)), 'PX', lasts)
    end
    write_record(floor)
  end
  return enrolled()
end
