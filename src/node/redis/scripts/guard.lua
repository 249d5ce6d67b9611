-- guard.lua  ARGV[2] guard  ->  whether the node may vote, and the records that say so
local quarantine_name = 'redquorum:quarantine'

-- A field of INFO; nil if the user may not know.
local function info(section, pattern)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and string.match(text, pattern) or nil
end

local found_run
-- Which life of whose data this is: the run_id is new with every start, the replication id with every promotion. False if
-- the user may not know.
local function run()
  if found_run == nil then
    local run_id = info('server', 'run_id:(%x+)')
    local replication_id = run_id and info('replication', 'master_replid:(%x+)')
    found_run = replication_id and run_id .. '/' .. replication_id or false
  end
  return found_run
end

-- Whether the node's record was written in this run.
local function is_of(this)
  local stored = node_record().run
  return stored and this and stored == this
end

-- In quarantine: for how many milliseconds, and from when by the node's clock it counts for renewals.
local function quarantine()
  local renewals_from = call('GET', quarantine_name)
  if not renewals_from then
    return nil
  end
  return { remaining = math.max(call('PTTL', quarantine_name), 0), renewals_from = tonumber(renewals_from) or 0 }
end

-- Why the node must not vote, nil if it may.
local function abstention()
  if guard == 'off' then
    return nil
  end
  local this = run_of_connection
  if guard == 'per_vote' then
    this = run()
  end
  if not is_of(this) then
    return { 'abstains' }
  end
  local found = quarantine()
  return found and { 'abstains', found.remaining, renewals_from = found.renewals_from }
end

-- The answer to a renewal that does not count, nil if it does. In quarantine they count as soon as every attempt is
-- decided that the node may have voted in.
local function healed()
  local abstains = abstention()
  if not abstains or (abstains.renewals_from and milliseconds() > abstains.renewals_from) then
    return nil
  end
  return { 'healed', abstains[2] }
end

-- Above every vote that was given until now: for a node that may have forgotten them. That of a new node stays: with votes
-- from the next second on, they would be above the floor that a restart within this second sets.
local function floor_of(is_new)
  return is_new and floor() or math.max(floor(), (node_seconds() + 1) * steps_per_second)
end

local function write_record(floor)
  call('HSET', record_name, 'run', run() or '', 'floor', text_of(floor), 'fingerprint', fingerprint)
end

local function enrolled()
  local found = quarantine()
  return { 'enrolled', run(), found and found.remaining }
end
