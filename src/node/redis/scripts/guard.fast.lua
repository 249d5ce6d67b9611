-- guard.fast.lua  KEYS one resource  ->  minimum token of a node that votes, else false; whether the node is dirty; and whether the fast path may continue
--
-- A node votes if the metadata has the stamp of the call, and the node is not in quarantine. Usually the node is
-- not dirty either, and a lock finds no key of the resource. One command checks for all of these keys.
local is_usual, fields, found
local readers = name == 'share' and $READERS .. resource .. '}'
if minimum_token == nil then
  local metadata = call('HMGET', $METADATA, 'stamp', 'minimum_token')
  minimum_token = metadata[1] == words[1] and metadata[2]
  -- Parsing a number costs about a fifth of a command.
  minimum_token = minimum_token == '0' and 0 or (minimum_token and find(minimum_token, '^[1-9]%d*$') and tonumber(minimum_token))
  found = readers and call('EXISTS', $QUARANTINE, $DIRTY, resource, readers) or call('EXISTS', $QUARANTINE, $DIRTY, resource)
  fields = found == 0 and 0 or call('HLEN', resource)
  -- If more keys exist than those of the resource, or the command fails, the node may be dirty or in quarantine.
  is_dirty = type(found) ~= 'number' or found > (fields == 0 and 0 or readers and 2 or 1)
  minimum_token = not (is_dirty and call('EXISTS', $QUARANTINE) ~= 0) and minimum_token
end
is_usual = minimum_token and not (is_dirty and call('EXISTS', $TOMBSTONE .. braced(resource) .. ':' .. lease_id) ~= 0)
