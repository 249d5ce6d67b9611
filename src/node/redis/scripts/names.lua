-- names.lua  ->  the names of keys and channels, which `node/names.rs` spells for clients
--
-- Constants, so that no function has to be defined for a name. What ends in a brace is closed by
-- one; what does not goes before `braced`.
local METADATA, QUARANTINE, ANY = 'redquorum:node', 'redquorum:quarantine', 'redquorum:any'
local COUNTER, CHANNEL, TOMBSTONE = 'redisson_lock_token:', 'redisson_lock__channel:', 'redquorum:gone:'
-- Always in braces: `a` and `{a}` have two queues, two marks, and are two elections.
local QUEUE, ENTRY_TTL, WOKEN = 'redquorum:queue:{', 'redquorum:entry_ttl:{', 'redquorum:woken:{'
local MARK, LEADER = 'redquorum:mark:{', 'redquorum:leader:{'
local TURN, NEXT = 'redquorum:turn:{', 'redquorum:next:{'

-- By Redisson's rule: no braces of ours where the resource has one.
local function braced(resource)
  return string.find(resource, '{', 1, true) and resource or '{' .. resource .. '}'
end

