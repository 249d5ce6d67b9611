-- vacant.lua  KEYS resources  ARGV how many are told, at most, and whether even those that are marked 0|1
--   ->  vacant index ... | abstains
node.arity.vacant = 2
function node.vacant(resources, most, even_marked)
  node.may_vote()
  local said, is_dirty = { 'vacant' }, node.flags().is_dirty
  local looks_at_marks = is_dirty and even_marked == '0'
  most = tonumber(most)
  for from = 1, #resources, 64 do
    local last = math.min(from + 63, #resources)
    -- Where it is asked of many, most are somebody's: one command says so of all of these.
    local are_all_taken = redis.call('EXISTS', unpack(resources, from, last)) == last - from + 1
    for i = from, are_all_taken and from - 1 or last do
      if #said > most then
        return said
      end
      local resource, found = resources[i]
      if looks_at_marks then
        found = redis.call('EXISTS', resource, $QUEUE .. resource .. '}', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}')
      elseif is_dirty then
        found = redis.call('EXISTS', resource, $QUEUE .. resource .. '}')
      else
        found = redis.call('EXISTS', resource)
      end
      if found == 0 then
        said[#said + 1] = i - 1
      end
    end
  end
  return said
end
