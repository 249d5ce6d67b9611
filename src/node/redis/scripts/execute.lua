-- execute.lua  start of an operation in KEYS and ARGV  ->  its answer, and the start of the next operation in both

-- Returns the name and the arguments of the general path of an operation that has a fast path, the number of
-- arguments in the call, and the flags of shared resources; nil for any other operation. `is_removed`: the fast
-- path has removed the lease from the readers.
function node.expand(name, at, is_removed)
  local lease_id, shared = ARGV[at + 1], (name == 'share' or name == 'unshare' or name == 'unshare_late') and '1'
  if name == 'release' or name == 'unshare' then
    return 'unlock_any', { lease_id, '10', is_removed }, 1, shared
  elseif name == 'release_late' or name == 'unshare_late' then
    return 'unlock_any', { lease_id, '11', is_removed }, 1, shared
  elseif name == 'lock' or name == 'try' or name == 'share' then
    return name == 'try' and 'try_any' or 'lock_any', { lease_id, ARGV[at + 2], '0' }, 2, shared
  elseif name == 'turn' then
    return 'take', { lease_id, ARGV[at + 2], ARGV[at + 3] }, 3
  elseif name == 'head' then
    return 'enqueue', { lease_id, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], '0', '0' }, 6
  elseif name == 'unlock' then
    return 'unlock_any', { lease_id, ARGV[at + 2] }, 2
  elseif name == 'renew' then
    return 'renew_any', { lease_id, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] }, 4
  end
end

-- Executes an operation on the general path. Returns the answer, and the start of the next operation.
function node.execute(key, at, is_removed)
  local name, arguments, arity, shared = node.expand(ARGV[at], at, is_removed)
  local count, first = 1, at + 1
  if name then
    node.require_functions(name)
  else
    name = ARGV[at]
    if name == 'shared' then
      shared, name, first = ARGV[at + 1], ARGV[at + 2], at + 3
    end
    node.require_functions(name)
    count, first, arity = ARGV[first], first + 1, node.arity[name]
    arguments = { unpack(ARGV, first, first + arity - 1) }
  end
  -- A loop, because `unpack` fails at 8,000 resources, and an error here would end the whole call.
  local resources = {}
  for i = 1, count do
    resources[i] = KEYS[key + i - 1]
  end
  if shared then
    node.require_functions('share')
    resources.is_shared = {}
    for i = 1, count do
      resources.is_shared[i] = string.sub(shared, i, i) == '1'
    end
  end
  local is_done, answer = pcall(node[name], resources, unpack(arguments))
  -- A raised table is an answer of `node.refuse`, or the error of a command, which has a field `err`. Before
  -- Redis 7, the error of a command is a text.
  if not is_done and (type(answer) ~= 'table' or answer.err) then
    answer = { 'error', type(answer) == 'table' and answer.err or tostring(answer) }
  end
  return answer, key + count, first + arity
end
