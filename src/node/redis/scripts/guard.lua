-- guard.lua  ARGV[2] guard  ->  whether the node may vote, and the records that say so
local quarantine_name = 'redquorum:quarantine'

local run
-- Which run of which server this is; false if the user may not know.
local function run_id()
  if run == nil then
    local server = redis.pcall('INFO', 'server')
    run = type(server) == 'string' and string.match(server, 'run_id:(%x+)') or false
  end
  return run
end

local function is_of_this_run()
  local stored = node_record().run_id
  return stored and stored == run_id()
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
  local is_enrolled = node_record().fingerprint
  if guard == 'per_vote' then
    is_enrolled = is_of_this_run()
  end
  if not is_enrolled then
    return { 'abstains' }
  end
  local found = quarantine()
  return found and { 'abstains', found.remaining, renewals_from = found.renewals_from }
end

-- In quarantine, renewals count as soon as every attempt is decided that the node may have voted in.
local function counts_renewals()
  local abstains = abstention()
  if not abstains then
    return true
  end
  return abstains.renewals_from and milliseconds() > abstains.renewals_from
end

-- Above every vote that was given until now: for a node that may have forgotten them. One that is new keeps its floor,
-- or its votes would be above the floor that a restart within this second sets.
local function write_record(is_new)
  local floor = integer(node_record().floor)
  if not is_new then
    floor = math.max(floor, (node_seconds() + 1) * steps_per_second)
  end
  call('HSET', record_name, 'run_id', run_id() or '', 'floor', text_of(floor), 'fingerprint', fingerprint)
end

local function enrolled()
  local found = quarantine()
  return { 'enrolled', run_id(), milliseconds(), found and found.remaining }
end
