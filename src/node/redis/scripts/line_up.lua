-- line_up.lua  KEYS resources  ARGV owner, ttl, hint, waiter, ticket, life|0, index of the resource whose line it is, only waits 0|1
--   ->  vote | awaited vote | queued index ticket rank patience [index owner remaining counter] | gone

-- Each key gets its ttl as a lock does: PEXPIRE does nothing to one that is missing, but fails if
-- the user may not call it. Whether it was missing.
function node.set_with_ttl(name, score, waiter, life)
  local left = redis.call('PTTL', name)
  if left < tonumber(life) then
    redis.call('PEXPIRE', name, life)
  end
  redis.call('ZADD', name, node.text_of(score), waiter)
  if left < 0 then
    redis.call('PEXPIRE', name, life)
  end
  return left < 0
end

-- Tickets are times in microseconds: so a place that another node gave is about where it belongs.
-- Far ahead, it would put everybody who comes later there, too.
function node.enter_line(resource, waiter, ticket, life)
  local now = node.milliseconds()
  if ticket == '0' then
    local last = redis.call('ZRANGE', node.line_name(resource), -1, -1, 'WITHSCORES')[2]
    ticket = math.max(now * 1000, (tonumber(last) or 0) + 1)
  else
    ticket = math.min(tonumber(ticket), (now + 3600000) * 1000)
  end
  if node.set_with_ttl(node.line_name(resource), ticket, waiter, life) then
    -- Whoever was called in a line that is over was not called in this one.
    redis.pcall('DEL', node.called_name(resource))
  end
  node.set_with_ttl(node.lives_name(resource), now + tonumber(life), waiter, life)
  node.sign()
  return ticket
end

-- How long whoever is before a waiter, or the last of the line, keeps its place, nil if there is
-- nobody; and how many are before it.
function node.life_before(resource, waiter)
  while true do
    local line = node.line_name(resource)
    local rank = redis.call('ZRANK', line, waiter)
    local before = rank ~= 0 and redis.call('ZRANGE', line, (rank or 0) - 1, (rank or 0) - 1)[1]
    local left = before and node.life_left(resource, before)
    if left or not before then
      return left, rank or (before and redis.call('ZRANK', line, before) + 1 or 0)
    end
    node.leave_line(resource, before)
  end
end

function node.line_up(resources, owner, ttl, hint, waiter, ticket, life, index, only_waits)
  node.may_vote()
  if node.is_any_gone(resources, owner) then
    return { 'gone' }
  end
  index = tonumber(index)
  local resource = resources[index + 1]
  local seen = node.survey(resources, owner)
  local is_free, head = not seen.other and only_waits == '0', nil
  if is_free and not seen.is_all_ours and node.signs().has_any then
    head = node.next_in_line(resource, waiter, ticket)
  end
  if is_free and (not head or head == waiter) then
    local vote = node.grant(resources, owner, ttl, hint, seen)
    if head then
      node.leave_line(resource, waiter)
    end
    return node.awaited(vote, node.has_line(resource))
  end
  local held = seen.other and node.held_by_another(seen)
  local place = life == '0' and 0 or node.enter_line(resource, waiter, ticket, life)
  local left, rank = node.life_before(resource, waiter)
  if not held then
    return { 'queued', index, place, rank, left or 0 }
  end
  return { 'queued', held[2], place, rank, left or held[4], unpack(held, 2, 5) }
end
