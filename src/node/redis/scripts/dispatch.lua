-- dispatch.lua  KEYS resources of all operations  ARGV stamp, counter ttl, guard and max ttl and hand-over, operations ...  ->  answers
--
-- An operation is a name, the number of its resources, and its arguments. If any of the resources is
-- shared, `shared` and the shared resources precede the name: `01` if the second of two is shared.
--
-- The frequent operations on one resource come without the number. Each has a short way, in a file
-- `*.short.lua`, which needs no function of the general way. A short way is text in the loop: it sets
-- `arity`, the number of arguments, and `answer`. If a short way meets anything unusual, it sets no
-- answer, and `node.execute` takes the general way. Until then a short way writes nothing but the
-- counter of a lock, which it counts up and down again, and `is_removed`: an owner that was a reader
-- is taken out of the readers.
--
-- If the node is dirty (has tombstones, wait queues or marks), a short way checks for a queue of its
-- resource, and for a mark if the mark matters, and leaves both to the general way. Only the lock of
-- a waiter at its turn goes on, because queue and marks exist for this waiter.
local largest_counter = 9007199254740991
-- Locals, because a global is looked up by its name at each use.
local keys, words, call, type, find = KEYS, ARGV, redis.pcall, type, string.find
local node, minimum_token, is_dirty, time
local answers, answered, key, at, last = {}, 0, 1, 4, #words

-- By Redisson's rule: no braces of ours where the resource has one.
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
    -- The general way may have changed both.
    minimum_token, is_dirty = nil, nil
  end
  answered = answered + 1
  answers[answered] = answer
end
return answers
