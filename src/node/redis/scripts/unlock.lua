-- unlock.lua  KEYS resources  ARGV owner, token, real 0|1, leave 0|1  ->  unlocked deleted
local function unlock(resources, owner, token, real, leave)
  -- Whatever goes wrong with one part, the others are done, and the first problem is the answer.
  local problem
  local function attempt(action)
    local is_done, result = pcall(action)
    if not is_done then
      problem = problem or result
    end
  end

  -- Deletions first: a server without memory takes them, and what follows only if it is not the first write.
  local deleted = 0
  for _, resource in ipairs(resources) do
    attempt(function()
      local held = holder(resource)
      if held and held.owner == owner then
        call('DEL', resource)
        deleted = deleted + 1
        if real == '1' then
          call('PUBLISH', channel_name(resource), '0')
          call_next(resource)
        end
      end
    end)
  end
  -- To carry the token is a kindness to the next vote, nothing that is owed: where it cannot be done, the unlock is done
  -- all the same, and need not be sent again.
  if token ~= '0' then
    for _, resource in ipairs(resources) do
      pcall(function()
        count(resource, math.max(counter_of(resource) or start(), integer(token)))
      end)
    end
  end
  if leave == '1' then
    for _, resource in ipairs(resources) do
      attempt(function()
        bury(resource, owner)
      end)
    end
  end
  return problem or { 'unlocked', deleted }
end
