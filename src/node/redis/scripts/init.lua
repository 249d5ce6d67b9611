-- init.lua  ->  enrolled run|false [quarantine] | known fingerprint | no_run_id
function node.init()
  if node.record().fingerprint then
    return { 'known', node.record().fingerprint }
  end
  if node.guard ~= 'off' and not node.run() then
    return { 'no_run_id' }
  end
  node.write_record(0)
  return node.enrolled()
end
