-- unlock.lua  KEYS resources  ARGV owner, kind (notify 0|1, tombstone 0|1 unless all was deleted|2,
--   and 1 if it is known that others wait)  ->  deleted | with_waiters deleted

-- What becomes of the mark of a resource that is free now. A turn mark stays: the writer whose turn it
-- is comes now.
function node.passes_mark(resource, notifies, is_known)
  if not (is_known or node.flags().is_dirty) then
    return
  elseif not notifies then
    redis.pcall('DEL', $YIELD_MARK .. resource .. '}')
  elseif is_known then
    node.set_yield_mark(resource, node.hand_over)
  else
    node.set_yield_mark(resource, node.hand_over, 'XX')
  end
end

node.arity.unlock_any = 2
function node.unlock_any(resources, owner, kind, is_taken)
  local notify, tombstone, is_known = string.match(kind, '^(%d)(%d)(1?)$')
  -- Whatever goes wrong with one part, the others are done, and the first problem is the answer.
  -- Deletions first: a server without memory takes them, and what follows only if it is not the
  -- first write.
  local problem, deleted, has_waiters = nil, 0, false
  for i = 1, #resources do
    local resource = resources[i]
    local reply, is_free = 0, false
    if resources.is_shared and resources.is_shared[i] then
      local is_done, was_reader
      is_done, was_reader, is_free = pcall(node.unshare, resource, owner, is_taken)
      problem = problem or (not is_done and was_reader)
      deleted = deleted + (is_done and was_reader or 0)
    else
      -- An owner has a name that nobody had before: a field of that name is its lock, whatever
      -- stands beside it.
      reply = redis.pcall('HDEL', resource, owner)
      is_free = reply == 1
      if is_free then
        deleted = deleted + 1
      elseif reply ~= 0 then
        -- A replica refuses to delete even what is not there, and then there is nothing to deliver.
        local field = redis.pcall('HMGET', resource, owner)
        reply = (field.err or field[1]) and reply
      end
    end
    if is_free then
      -- Waiters go before newcomers, if there are any that are known: best effort, too.
      pcall(node.passes_mark, resource, notify == '1', is_known == '1')
      reply = notify == '1' and redis.pcall('PUBLISH', $CHANNEL .. braced(resource), '0')
    end
    problem = problem or (type(reply) == 'table' and reply)
    -- Wherever it is free now: what is deleted elsewhere may not have been here.
    local is_done, found = pcall(node.has_waiters, resource)
    has_waiters = has_waiters or (is_done and found)
  end
  local is_left = tombstone == '2' or (tombstone == '1' and deleted < #resources)
  for i = 1, is_left and #resources or 0 do
    local is_done, answer = pcall(node.write_tombstone, resources[i], owner)
    problem = problem or (not is_done and answer)
  end
  if problem then
    error(problem, 0)
  end
  return node.with_waiters(deleted, has_waiters)
end
