-- publishing.lua  ->  the publication of notices

-- Publishes a notice. Returns the number of its listeners; nil if the notice cannot be published: the
-- user may not use the command or the channel, or the server has renamed the command.
--
-- A notice is best effort, and no part of the answer. Therefore no other line of the general path publishes, and
-- the first error is reported beside the answers of the call.
function node.publish(channel)
  local listeners = $ZERO_WITHOUT_LISTENERS_OR redis.pcall('PUBLISH', channel, '0')
  if type(listeners) == 'number' then
    return listeners
  end
  node.unpublished = node.unpublished or listeners.err
end
