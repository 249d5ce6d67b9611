-- unshare.fast.lua  KEYS one shared resource  ARGV lease id  ->  1
--
--   unshare       notifies, leaves no tombstone; the name of the resource has no brace
--   unshare_late  the same, leaves a tombstone unless the lease was a reader
arity = 1
repeat
  local readers = $READERS .. resource .. '}'
  is_removed = call('ZREM', readers, lease_id) == 1
  if not is_removed or is_dirty then
    break
  end
  -- Usually no reader is left, and the node is not dirty. One command checks both conditions.
  local left = is_dirty == nil and call('EXISTS', readers, $DIRTY) or call('EXISTS', readers)
  if left == 1 then
    -- The key of the resource ends with its last reader, at once if that reader has expired.
    local ends = call('ZRANGE', readers, '-1', '-1', 'WITHSCORES')[2]
    if ends and call('HMGET', resource, $SHARED)[1] and call('PEXPIREAT', readers, ends) == 1 and call('PEXPIREAT', resource, ends) == 1 then
      left = call('EXISTS', readers)
      answer = left == 1 and 1 or nil
    end
    if left ~= 0 then
      break
    end
  elseif left ~= 0 or call('HDEL', resource, $SHARED) ~= 1 then
    break
  end
  local channel = $CHANNEL .. $OPEN_BRACE .. resource .. $CLOSE_BRACE
  $FAST_PUBLISH
  answer = 1
until true
