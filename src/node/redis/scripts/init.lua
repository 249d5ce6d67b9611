-- init.lua  ->  enrolled run|false [quarantine] | known fingerprint | no_run_id
local function init()
  if node_record().fingerprint then
    return { 'known', node_record().fingerprint }
  end
  if guard ~= 'off' and not run() then
    return { 'no_run_id' }
  end
  write_record(0)
  return enrolled()
end
