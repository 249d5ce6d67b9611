-- force_unlock.lua  KEYS resources  ->  unlocked deleted
local function force_unlock(resources)
  -- Whatever goes wrong with one resource, the others are done, and the first problem is the answer.
  local problem
  local deleted = 0
  for _, resource in ipairs(resources) do
    local is_done, result = pcall(function()
      local held = holder(resource)
      if held then
        call('DEL', resource)
        deleted = deleted + 1
        call('PUBLISH', channel_name(resource), '0')
        call_next(resource)
        if held.owner then
          bury(resource, held.owner)
        end
      end
    end)
    if not is_done then
      problem = problem or result
    end
  end
  return problem or { 'unlocked', deleted }
end
