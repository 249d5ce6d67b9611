-- writing.lua  ARGV[3] max ttl  ARGV[4] counter ttl  ->  the writes of a node, each of them with a ttl
local function count(resource, value)
  call('SET', counter_name(resource), text_of(value), 'PX', counter_ttl)
end

local function bury(resource, owner)
  call('SET', tombstone_name(resource, owner), '1', 'PX', max_ttl)
end

-- Makes all resources the owner's, with these counters and holds (nil: as they are).
--
-- A script cannot undo, so the order matters. The counters come first: SET is what a server without memory, a replica
-- or one that cannot persist refuses, it says so at a script's first write only, and it brings its own ttl. Then PEXPIRE:
-- on a key that is missing it does nothing, but fails if the user may not call it. So the HSET that makes a key without
-- a ttl is only reached where the PEXPIRE after it is known to be allowed. What a fault in between leaves is a counter
-- that is too high, or resources of which some are owned for the ttl: both as after a reply that was lost, and the
-- unlock that follows every fault takes the latter back.
local function own(resources, owner, seen, values, holds, ttl)
  for i, resource in ipairs(resources) do
    count(resource, values[i])
  end
  for i, resource in ipairs(resources) do
    local held = seen.holders[i]
    if not held or held.ttl < tonumber(ttl) then
      call('PEXPIRE', resource, ttl)
    end
  end
  if not holds then
    return
  end
  for i, resource in ipairs(resources) do
    call('HSET', resource, owner, holds)
    if not seen.holders[i] then
      call('PEXPIRE', resource, ttl)
    end
  end
end
