-- reconfigure.lua  ARGV from, to  ->  enrolled run|false [quarantine] | foreign fingerprint | abstains
function node.reconfigure(_, from, to)
  local current = node.record().fingerprint
  if not current then
    return { 'abstains' }
  end
  if current ~= from and current ~= to then
    return { 'foreign', current }
  end
  redis.call('HSET', 'redquorum:node', 'fingerprint', to, 'new', '0')
  node.known_record = false
  return node.enrolled()
end
