-- enrol.lua  ARGV admits new 0|1, quarantine, renewals after  ->  enrolled run_id|false time [quarantine] | no_run_id
local function enrol(_, admits_new, lasts, renewals_after)
  if guard ~= 'off' and not run_id() then
    return { 'no_run_id' }
  end
  local is_known = node_record().fingerprint
  local is_trusted = guard == 'off' or (not is_known and admits_new == '1')
  if not is_known or not (is_of_this_run() or is_trusted) then
    -- The quarantine first: what a fault in between leaves is a node that abstains for nothing.
    if not is_trusted then
      call('SET', quarantine_name, text_of(milliseconds() + tonumber(renewals_after)), 'PX', lasts)
    end
    write_record(is_trusted)
  end
  return enrolled()
end
