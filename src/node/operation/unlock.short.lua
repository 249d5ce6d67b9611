-- unlock.short.lua  KEYS one resource  ARGV owner, and for `unlock` its kind  ->  1
--
--   release       notifies, leaves no tombstone; the name of the resource has no brace
--   release_late  the same, leaves a tombstone unless the lock is deleted
--   unlock        kind as in unlock.lua
repeat
  local channel
  if name ~= 'unlock' then
    arity, channel = 1, $CHANNEL .. '{' .. resource .. '}'
  else
    local kind = words[at + 2]
    arity = 2
    if kind == '10' or kind == '11' then
      channel = $CHANNEL .. braced(resource)
    elseif kind ~= '00' and kind ~= '01' then
      break
    end
  end
  if is_dirty == nil then
    is_dirty = call('EXISTS', $ANY) ~= 0
  end
  if is_dirty and call('EXISTS', $QUEUE .. resource .. '}', $MARK .. resource .. '}') ~= 0 then
    break
  end
  if call('HDEL', resource, owner) == 1 then
    local listeners = channel and call('PUBLISH', channel, '0')
    answer = type(listeners) == 'table' and { 'error', listeners.err } or 1
  end
until true
