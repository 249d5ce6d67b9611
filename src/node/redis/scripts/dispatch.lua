-- dispatch.lua  KEYS resources of all operations  ARGV stamp, counter ttl, guard and max ttl and hand-over, operations ...  ->  answers, and if a notice cannot be published: unpublished error
--
-- An operation is a name, the number of its resources, and its arguments. If any resource is shared,
-- `shared` and a flag for each resource precede the name: `01` if the second of two is shared.
--
-- The frequent operations on one resource omit the number. Each has a short way, in a file
-- `*.short.lua`, which needs no function of the general way. A short way is text in the loop: it sets
-- `arity`, the number of arguments, and `answer`. In a rare case, a short way sets no answer, and
-- `node.execute` takes the general way. Before that, a short way has no effect, with two exceptions:
--
--   * A lock increments its counter, and decrements it again.
--   * An unlock of a reader removes the owner from the readers, and sets `is_removed`.
--
-- If the node is dirty (has tombstones, wait queues or marks), a short way checks for a queue of its
-- resource, and for a mark if the mark matters. If it finds one, the general way follows. Only the lock
-- of a woken waiter continues, because queue and marks exist for this waiter.
local largest_counter = 9007199254740991
-- Locals are faster, because a global is looked up by its name at each use.
local keys, words, call, type, find = KEYS, ARGV, redis.pcall, type, string.find
local node, minimum_token, is_dirty, time, unpublished
local answers, answered, key, at, last = {}, 0, 1, 4, #words

-- Encloses a resource in braces by Redisson's rule: not if the resource contains one.
local function braced(resource)
  return find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
end

while at <= last do
  local name, owner, resource = words[at], words[at + 1], keys[key]
  local arity, answer, is_removed

  if name == 'release' or name == 'release_late' or name == 'unlock' then
    $SHORT_UNLOCK
  elseif name == 'unshare' or name == 'unshare_late' then
    $SHORT_UNSHARE
  elseif name == 'lock' or name == 'try' or name == 'turn' or name == 'head' or name == 'renew' or name == 'share' then
    $SHORT_GUARD
    if name == 'renew' then
      $SHORT_RENEW
    elseif name == 'share' then
      $SHORT_SHARE
    else
      $SHORT_LOCK
    end
  end

  if answer then
    key, at = key + 1, at + 1 + arity
  else
    node = node or define(braced)
    node.known_time = time or node.known_time
    answer, key, at = node.execute(key, at, is_removed)
    -- The general way may have changed the metadata and the flags.
    minimum_token, is_dirty = nil, nil
  end
  answered = answered + 1
  answers[answered] = answer
end
unpublished = unpublished or node and node.unpublished
answers[answered + 1] = unpublished and { 'unpublished', unpublished } or nil
return answers
