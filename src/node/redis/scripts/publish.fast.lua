-- publish.fast.lua  channel, or false for no notice  ->  unpublished
--
-- A notice is best effort, and no part of the answer. The loop reports an error beside the answers.
local listeners = channel and ($ZERO_WITHOUT_LISTENERS_OR call('PUBLISH', channel, '0'))
unpublished = type(listeners) == 'table' and listeners.err or unpublished
