-- unlock.fast.lua  KEYS one resource  ARGV lease id, and for `unlock` its kind  ->  1
--
--   release       notifies, leaves no tombstone; the name of the resource has no brace
--   release_late  the same, leaves a tombstone unless the lock is deleted
--   unlock        kind as in unlock.lua
repeat
  local channel, hand_over
  if name ~= 'unlock' then
    arity, channel = 1, $CHANNEL .. $OPEN_BRACE .. resource .. $CLOSE_BRACE
  else
    local kind = words[at + 2]
    local waiters_known = kind == '101' or kind == '111'
    arity = 2
    if waiters_known or kind == '10' or kind == '11' then
      channel = $CHANNEL .. braced(resource)
    elseif kind ~= '00' and kind ~= '01' then
      break
    end
    if waiters_known then
      -- The waiters are queued at another node, so newcomers must yield here. The key of a dirty node
      -- must outlive the mark.
      local max_ttl, lasts
      max_ttl, hand_over = string.match(words[3], ' (%d+) (%d+)$')
      max_ttl, lasts = tonumber(max_ttl), call('PTTL', $DIRTY)
      if type(lasts) ~= 'number' or lasts < max_ttl or tonumber(hand_over) > max_ttl then
        break
      end
      is_dirty = true
    end
  end
  if is_dirty == nil then
    is_dirty = call('EXISTS', $DIRTY) ~= 0
  end
  if is_dirty and call('EXISTS', $QUEUE .. resource .. '}', (hand_over and $QUEUE or $YIELD_MARK) .. resource .. '}') ~= 0 then
    break
  end
  if call('HDEL', resource, lease_id) == 1 then
    if hand_over then
      call('SET', $YIELD_MARK .. resource .. '}', '1', 'PX', hand_over)
    end
    $FAST_PUBLISH
    answer = 1
  end
until true
