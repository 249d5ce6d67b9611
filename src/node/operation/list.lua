-- list.lua  ARGV cursor of SCAN, 0 at first  ->  listed cursor key of a lock or a latch ... | no_scan
node.arity.list = 1
function node.list(_, cursor)
  -- A step scans about 100 keys, which delays other clients by a fraction of a millisecond.
  local found = redis.pcall('SCAN', cursor, 'COUNT', 100, 'TYPE', 'hash')
  if found.err then
    -- Up to Redis 7.0, the error of a missing permission has no code.
    local is_forbidden = string.find(found.err, 'NOPERM') or string.find(found.err, 'executing the script') or string.find(found.err, 'ACL failure')
    node.refuse(is_forbidden and { 'no_scan' } or { 'error', found.err })
  end
  local reply = { 'listed', found[1] }
  for _, name in ipairs(found[2]) do
    -- SCAN also returns keys that the user may not read, and these are left out. The name of a resource has at
    -- most 512 bytes, and somewhat more if the name is reserved, such as the name of a slot.
    local is_readable, held = pcall(node.holder, name)
    local is_latch = string.sub(name, 1, #$LATCH) == $LATCH
    if is_readable and held and #name <= 600 and (is_latch or node.is_lock(held)) then
      reply[#reply + 1] = name
    end
  end
  return reply
end
