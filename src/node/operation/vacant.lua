-- vacant.lua  KEYS resources  ARGV how many are told, at most, and whether even those that are marked 0|1
--   ->  vacant index ... | abstains
node.arity.vacant = 2
function node.vacant(resources, most, even_marked)
  node.may_vote()
  local said, has_any = { 'vacant' }, node.signs().has_any
  local looks_at_marks = has_any and even_marked == '0'
  most = tonumber(most)
  for i = 1, #resources do
    if #said > most then
      break
    end
    local resource, found = resources[i]
    if looks_at_marks then
      found = redis.call('EXISTS', resource, $QUEUE .. resource .. '}', $MARK .. resource .. '}', $TURN_MARK .. resource .. '}')
    elseif has_any then
      found = redis.call('EXISTS', resource, $QUEUE .. resource .. '}')
    else
      found = redis.call('EXISTS', resource)
    end
    if found == 0 then
      said[#said + 1] = i - 1
    end
  end
  return said
end
