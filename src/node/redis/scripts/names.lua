-- names.lua  resource, owner  ->  the names that are derived from them
local record_name = 'redquorum:node'

-- Redisson's rule: no braces of ours where the resource has one.
local function named(prefix, resource)
  if string.find(resource, '{', 1, true) then
    return prefix .. resource
  end
  return prefix .. '{' .. resource .. '}'
end

local function channel_name(resource)
  return named('redisson_lock__channel:', resource)
end

local function counter_name(resource)
  return named('redisson_lock_token:', resource)
end

-- Always in braces: `a` and `{a}` are two elections.
local function leader_name(resource)
  return 'redquorum:leader:{' .. resource .. '}'
end

-- Always in braces, too: who waits for `a` must not keep `{a}` from anybody.
local function line_name(resource)
  return 'redquorum:line:{' .. resource .. '}'
end

local function lives_name(resource)
  return 'redquorum:lives:{' .. resource .. '}'
end

local function turn_name(resource, waiter)
  return 'redquorum:turn:{' .. resource .. '}:' .. waiter
end

local function tombstone_name(resource, owner)
  return named('redquorum:gone:', resource) .. ':' .. owner
end
