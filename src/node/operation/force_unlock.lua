-- force_unlock.lua  KEYS resources  ->  deleted
node.arity.force_unlock = 0
function node.force_unlock(resources)
  -- If one resource fails, the rest are unlocked still, and the first problem is the answer.
  local problem
  local deleted = 0
  for _, resource in ipairs(resources) do
    local is_done, result = pcall(function()
      local held = node.holder(resource)
      if held then
        local readers = $READERS .. resource .. '}'
        local owners = held.owner and { held.owner } or {}
        if held.owner == $SHARED then
          owners = redis.call('ZRANGE', readers, node.format_integer(node.milliseconds()), '+inf', 'BYSCORE')
        end
        redis.call('DEL', resource, readers)
        deleted = deleted + 1
        pcall(node.delete_marks, resource)
        -- Without a tombstone, the holder's next renewal would write the lock again.
        for _, owner in ipairs(owners) do
          node.write_tombstone(resource, owner)
        end
        node.publish($CHANNEL .. braced(resource))
        pcall(node.next_in_queue, resource)
        -- The former holder then queries the nodes. Without this notice, it would do so at its next
        -- renewal.
        for _, owner in ipairs(owners) do
          local client = string.match(owner, '^(.*):')
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
