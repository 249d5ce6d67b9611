-- unlock_any.lua  KEYS resources  ARGV owner, kind (real 0|1, leave 0|1 unless all was deleted|2,
--   and 1 if it is known that others wait)  ->  deleted | awaited deleted

-- What becomes of the mark of a resource that was deleted.
function node.pass_mark(resource, is_real, is_known)
  if not is_real then
    node.unmark(resource)
  elseif is_known then
    node.mark(resource, node.hand_over)
  elseif node.signs().has_any then
    node.mark(resource, node.hand_over, 'XX')
  end
end

function node.unlock_any(resources, owner, kind)
  local real, leave, is_known = string.match(kind, '^(%d)(%d)(1?)$')
  -- Whatever goes wrong with one part, the others are done, and the first problem is the answer.
  -- Deletions first: a server without memory takes them, and what follows only if it is not the
  -- first write.
  local problem, deleted, is_awaited = nil, 0, false
  for i = 1, #resources do
    local resource = resources[i]
    -- An owner has a name that nobody had before: a field of that name is its lock, whatever stands
    -- beside it.
    local reply = redis.pcall('HDEL', resource, owner)
    if reply == 1 then
      deleted = deleted + 1
      -- Waiters go before newcomers, if there are any that are known: best effort, too.
      pcall(node.pass_mark, resource, real == '1', is_known == '1')
      reply = real == '1' and redis.pcall('PUBLISH', node.named('redisson_lock__channel:', resource), '0')
    elseif reply ~= 0 then
      -- A replica refuses to delete even what is not there, and that is not owed.
      local field = redis.pcall('HMGET', resource, owner)
      reply = (field.err or field[1]) and reply
    end
    problem = problem or (type(reply) == 'table' and reply)
    -- Wherever it is free now: what is deleted elsewhere may not have been here.
    local is_done, found = pcall(node.is_awaited, resource)
    is_awaited = is_awaited or (is_done and found)
  end
  local is_left = leave == '2' or (leave == '1' and deleted < #resources)
  for i = 1, is_left and #resources or 0 do
    local is_done, answer = pcall(node.bury, resources[i], owner)
    problem = problem or (not is_done and answer)
  end
  if problem then
    error(problem, 0)
  end
  return node.awaited(deleted, is_awaited)
end
