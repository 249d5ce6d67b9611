-- keys.lua  ARGV a field that no key has, keys  ->  key, error, ... for each refused key
-- `pttl` needs the permission to read, and `hdel` the permission to write. Neither command changes a key.
local refused = {}
for i = 2, #ARGV do
  for _, call in ipairs({ { 'pttl', ARGV[i] }, { 'hdel', ARGV[i], ARGV[1] } }) do
    local reply = redis.pcall(unpack(call))
    if type(reply) == 'table' and reply.err then
      refused[#refused + 1] = ARGV[i]
      refused[#refused + 1] = reply.err
      break
    end
  end
end
return refused
