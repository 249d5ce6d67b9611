-- probe.lua  ARGV an unused name, one channel of each kind of notices, ...
--   ->  command, error, ... for each failed command
local name = ARGV[1]
local text, hash, queue = name, name .. ':hash', name .. ':queue'
-- On a node in a Redis Cluster, the name begins with the hash tag of all keys.
local counter = 'redisson_lock_token:' .. (string.find(name, '{', 1, true) and name or '{' .. name .. '}')
local failed, is_allowed = {}, {}
local function try(command, ...)
  local reply = redis.pcall(command, ...)
  local is_error = type(reply) == 'table' and reply.err
  is_allowed[command] = not is_error
  if is_error then
    failed[#failed + 1] = command
    failed[#failed + 1] = reply.err
  end
end
-- The writes are first, because a server without memory accepts every write of a script that has tried a deletion
-- before. All keys are deleted at the end of this script. If the deletion is refused, they end by their ttl.
try('set', text, '1', 'PX', '1000')
try('set', counter, '1', 'PX', '1000')
try('info', 'server')
try('time')
for i = 2, #ARGV do
  try('publish', ARGV[i], '0')
end
try('exists', text)
try('get', text)
try('pttl', text)
try('hlen', hash)
try('hgetall', hash)
try('hmget', hash, 'a')
try('hdel', hash, 'a')
try('zrange', queue, '0', '-1')
try('zrank', queue, 'a')
try('zscore', queue, 'a')
try('zrem', queue, 'a')
try('zcount', queue, '-inf', '+inf')
try('zremrangebyscore', queue, '-inf', '+inf')
if is_allowed.set then
  try('incr', text)
  try('decr', text)
end
try('pexpire', text, '1000')
-- A time in the past deletes the key.
try('pexpireat', text, '1')
try('del', text)
if is_allowed.del or is_allowed.pexpire then
  try('hset', hash, 'a', '1')
  try('zadd', queue, '1', 'a')
end
for _, key in ipairs({ text, hash, queue, counter }) do
  if is_allowed.pexpire then redis.pcall('pexpire', key, '1000') end
  if is_allowed.del then redis.pcall('del', key) end
end
try('scan', '0', 'COUNT', '1')
return failed
