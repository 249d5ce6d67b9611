-- dispatch.lua  KEYS resources of all operations  ARGV stamp, counter ttl, guard and max ttl and hand-over, operations ...  ->  answers, and if a notice cannot be published: unpublished error
--
-- An operation is a name, the number of its resources, and its arguments. If any resource is shared,
-- `shared` and a flag for each resource precede the name: `01` if the second of two is shared.
--
-- The frequent operations on one resource omit the number of resources. These operations have a fast path, in a
-- file `*.fast.lua`, which needs no function of the general path. A fast path is text in the loop, which sets
-- `arity`, the number of arguments, and `answer`. In a rare case, a fast path sets no answer, and
-- `node.execute` takes the general path. The fast path must have had no effect then, with two exceptions:
--
--   * A lock increments its counter, and decrements it again.
--   * An unlock of a reader removes the lease from the readers, and sets `is_removed`.
--
-- If the node is dirty (has tombstones, wait queues or marks), a fast path checks for a queue of its
-- resource, and for a mark if the mark matters. If there is a queue or mark, the general path follows, except
-- for the lock of a woken waiter, for which queue and marks exist.
local largest_counter = 9007199254740991
-- Locals are faster, because a global is looked up by its name at each use.
local keys, words, call, type, find = KEYS, ARGV, redis.pcall, type, string.find
local node, minimum_token, is_dirty, time, unpublished
local answers, answered, key, at, last = {}, 0, 1, 4, #words

-- Encloses a resource in braces, unless the resource contains a brace (Redisson's rule).
local function braced(resource)
  return find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
end

while at <= last do
  local name, lease_id, resource = words[at], words[at + 1], keys[key]
  local arity, answer, is_removed

  if name == 'release' or name == 'release_late' or name == 'unlock' then
    $FAST_UNLOCK
  elseif name == 'unshare' or name == 'unshare_late' then
    $FAST_UNSHARE
  elseif name == 'lock' or name == 'try' or name == 'turn' or name == 'head' or name == 'renew' or name == 'share' then
    $FAST_GUARD
    if name == 'renew' then
      $FAST_RENEW
    elseif name == 'share' then
      $FAST_SHARE
    else
      $FAST_LOCK
    end
  end

  if answer then
    key, at = key + 1, at + 1 + arity
  else
    node = node or define(braced)
    node.known_time = time or node.known_time
    answer, key, at = node.execute(key, at, is_removed)
    -- The general path may have changed the metadata and the flags.
    minimum_token, is_dirty = nil, nil
  end
  answered = answered + 1
  answers[answered] = answer
end
unpublished = unpublished or node and node.unpublished
answers[answered + 1] = unpublished and { 'unpublished', unpublished } or nil
return answers
