-- vacant.lua  KEYS resources  ARGV maximum number of resources, ignore marks 0|1
--   ->  vacant index ... | abstains
node.arity.vacant = 2
function node.vacant(resources, max_resources, ignores_marks)
  node.may_vote()
  local reply, is_dirty = { 'vacant' }, node.flags().is_dirty
  local checks_marks = is_dirty and ignores_marks == '0'
  max_resources = tonumber(max_resources)
  for from = 1, #resources, 64 do
    local last = math.min(from + 63, #resources)
    -- Of many resources, most are held: one command skips 64 resources that are all held.
    local are_all_held = redis.call('EXISTS', unpack(resources, from, last)) == last - from + 1
    for i = from, are_all_held and from - 1 or last do
      if #reply > max_resources then
        return reply
      end
      local resource, found = resources[i]
      if checks_marks then
        found = redis.call('EXISTS', resource, $QUEUE .. resource .. '}', $YIELD_MARK .. resource .. '}', $WRITER_MARK .. resource .. '}')
      elseif is_dirty then
        found = redis.call('EXISTS', resource, $QUEUE .. resource .. '}')
      else
        found = redis.call('EXISTS', resource)
      end
      if found == 0 then
        reply[#reply + 1] = i - 1
      end
    end
  end
  return reply
end
