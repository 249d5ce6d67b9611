-- lock.lua  ARGV[i..i+5] operation, owner, ttl, resource, counter key, channel  ->  {code, number} for each
local answers = {}
for i = 1, #ARGV, 6 do
    local operation, owner, ttl, resource, counter, channel = unpack(ARGV, i, i + 5)
    local mine = redis.call('HEXISTS', resource, owner) == 1
    if operation == 'lock' then
        if mine or redis.call('EXISTS', resource) == 0 then
            redis.call('HSET', resource, owner, 1)
            redis.call('PEXPIRE', resource, ttl)
            answers[#answers + 1] = {1, redis.call('INCR', counter)}
        else
            answers[#answers + 1] = {0, redis.call('PTTL', resource)}
        end
    elseif mine then
        redis.call('DEL', resource)
        if operation == 'real' then redis.call('PUBLISH', channel, '0') end
        answers[#answers + 1] = {2, 1}
    else
        answers[#answers + 1] = {2, 0}
    end
end
return answers
