-- renew.fast.lua  KEYS one resource  ARGV lease id, holds, ttl, token  ->  1
arity = 4
repeat
  local holds, ttl, token = words[at + 2], words[at + 3], words[at + 4]
  local counter, number = $COUNTER .. braced(resource), tonumber(token)
  if not is_usual or minimum_token > number or number > largest_counter or (fields or call('HLEN', resource)) ~= 1
    or is_dirty and call('EXISTS', $QUEUE .. resource .. '}') ~= 0 then
    break
  end
  -- If the counter equals the token and its ttl is long enough, no number is parsed or formatted.
  if call('HMGET', resource, lease_id)[1] ~= holds or call('GET', counter) ~= token then
    break
  end
  local remembered = call('PTTL', counter)
  if type(remembered) ~= 'number' or remembered < tonumber(words[2]) then
    break
  end
  local remaining = call('PTTL', resource)
  if type(remaining) == 'number' and remaining < tonumber(ttl) then
    remaining = call('PEXPIRE', resource, ttl)
  end
  answer = type(remaining) == 'table' and { 'error', remaining.err } or 1
until true
