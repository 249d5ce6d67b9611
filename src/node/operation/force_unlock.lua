-- force_unlock.lua  KEYS resources  ->  deleted
node.arity.force_unlock = 0
function node.force_unlock(resources)
  -- If one resource cannot be unlocked, the other resources are unlocked nevertheless. The first problem is the
  -- answer.
  local problem
  local deleted = 0
  for _, resource in ipairs(resources) do
    local is_done, result = pcall(function()
      local held = node.holder(resource)
      if held then
        local readers = $READERS .. resource .. '}'
        local lease_ids = held.lease_id and { held.lease_id } or {}
        if held.lease_id == $SHARED then
          lease_ids = redis.call('ZRANGE', readers, node.format_integer(node.milliseconds()), '+inf', 'BYSCORE')
        end
        redis.call('DEL', resource, readers)
        deleted = deleted + 1
        pcall(node.delete_marks, resource)
        -- Without a tombstone, the holder's next renewal would write the lock again.
        for _, lease_id in ipairs(lease_ids) do
          node.write_tombstone(resource, lease_id)
        end
        node.publish($CHANNEL .. braced(resource))
        pcall(node.next_in_queue, resource)
        -- On this notice, the client of the former holder queries the nodes at once. Without the notice, the client
        -- would detect the loss at its next renewal.
        for _, lease_id in ipairs(lease_ids) do
          local client = string.match(lease_id, '^(.*):')
          if client then
            node.publish($CHANNEL .. $FORCE_UNLOCKED .. client .. '}')
          end
        end
      end
    end)
    if not is_done then
      problem = problem or result
    end
  end
  if problem then
    error(problem, 0)
  end
  return deleted
end
