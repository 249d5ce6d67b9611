-- reconfigure.lua  ARGV from, to  ->  enrolled run|false [quarantine] | foreign fingerprint | abstains
local function reconfigure(_, from, to)
  local current = node_record().fingerprint
  if not current then
    return { 'abstains' }
  end
  if current ~= from and current ~= to then
    return { 'foreign', current }
  end
  call('HSET', record_name, 'fingerprint', to)
  return enrolled()
end
