-- list.lua  ARGV cursor of SCAN, 0 at first  ->  listed cursor resource ... | no_scan
node.arity.list = 1
function node.list(_, cursor)
  -- A step looks at about so many keys, which keeps others waiting for a fraction of a millisecond.
  local found = redis.pcall('SCAN', cursor, 'COUNT', 100, 'TYPE', 'hash')
  if found.err then
    -- Up to Redis 7.0, the words for a missing permission have no code.
    local is_forbidden = string.find(found.err, 'NOPERM') or string.find(found.err, 'executing the script') or string.find(found.err, 'ACL failure')
    node.refuse(is_forbidden and { 'no_scan' } or { 'error', found.err })
  end
  local said = { 'listed', found[1] }
  for _, name in ipairs(found[2]) do
    -- SCAN shows names of keys that the user may not read, too: those are nobody's locks to it. The
    -- name of a resource has 512 bytes, and somewhat more where it is one of ours.
    local is_told, held = pcall(node.holder, name)
    if is_told and held and #name <= 600 and node.is_lock(held) then
      said[#said + 1] = name
    end
  end
  return said
end
