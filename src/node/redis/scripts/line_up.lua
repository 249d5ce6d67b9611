-- line_up.lua  KEYS resources  ARGV owner, ttl, hint, waiter, ticket, life|0  ->  granted vote | queued ticket patience [index owner remaining counter] | gone
local ticket_ahead = 3600000

-- Each key gets its ttl as a lock does: PEXPIRE does nothing to one that is missing, but fails if the user may not call it.
local function set_with_ttl(name, score, waiter, life)
  local left = call('PTTL', name)
  if left < tonumber(life) then
    call('PEXPIRE', name, life)
  end
  call('ZADD', name, text_of(score), waiter)
  if left < 0 then
    call('PEXPIRE', name, life)
  end
end

-- Tickets are times in microseconds: so a place that another node gave is about where it belongs. Far ahead, it would put
-- everybody who comes later there, too.
local function enter(resource, waiter, ticket, life)
  local now = milliseconds()
  if ticket == '0' then
    local last = call('ZRANGE', line_name(resource), -1, -1, 'WITHSCORES')[2]
    ticket = math.max(now * 1000, (tonumber(last) or 0) + 1)
  else
    ticket = math.min(tonumber(ticket), (now + ticket_ahead) * 1000)
  end
  set_with_ttl(line_name(resource), ticket, waiter, life)
  set_with_ttl(lives_name(resource), now + tonumber(life), waiter, life)
  return ticket
end

-- How long whoever is before a waiter, or the last of the line, keeps its place; nil if there is nobody.
local function life_before(resource, waiter)
  while true do
    local rank = call('ZRANK', line_name(resource), waiter)
    local before = rank ~= 0 and call('ZRANGE', line_name(resource), (rank or 0) - 1, (rank or 0) - 1)[1]
    local left = before and life_left(resource, before)
    if left or not before then
      return left
    end
    leave_line(resource, before)
  end
end

local function line_up(resources, owner, ttl, hint, waiter, ticket, life)
  if is_gone(resources, owner) then
    return { 'gone' }
  end
  local resource = resources[1]
  local seen = survey(resources, owner)
  local head
  if not seen.other and not seen.is_all_ours then
    head = next_in_line(resource, waiter, ticket)
  end
  if not seen.other and (not head or head == waiter) then
    local answer = lock(resources, owner, ttl, hint)
    if head then
      leave_line(resource, waiter)
    end
    return answer
  end
  local counters = counters_of(resources)
  local held = seen.other and held_by_another(seen, counters)
  local place = life == '0' and 0 or enter(resource, waiter, ticket, life)
  local patience = life_before(resource, waiter) or (held and held[4]) or 0
  if not held then
    return { 'queued', place, patience }
  end
  return { 'queued', place, patience, unpack(held, 2, 5) }
end
