-- dispatch.lua  KEYS resources of all entries  ARGV header, (operation, number of resources, arguments) ...  ->  answers
local operations = {
  lock = { run = lock, arguments = 3, is_checked = true, is_vote = true },
  raise = { run = raise, arguments = 2, is_checked = true, is_vote = true },
  renew = { run = renew, arguments = 4, is_checked = true },
  unlock = { run = unlock, arguments = 4 },
  line_up = { run = line_up, arguments = 6, is_checked = true, is_vote = true },
  withdraw = { run = withdraw, arguments = 1 },
  force_unlock = { run = force_unlock, arguments = 0 },
  inspect = { run = inspect, arguments = 0 },
  proclaim = { run = proclaim, arguments = 6, is_checked = true },
  observe = { run = observe, arguments = 0 },
  enrol = { run = enrol, arguments = 4, is_checked = true },
  init = { run = init, arguments = 0 },
  reconfigure = { run = reconfigure, arguments = 2 },
}

local function execute(operation, resources, ...)
  if operation.is_checked then
    local other = node_record().fingerprint
    if other and other ~= fingerprint then
      return { 'foreign', other }
    end
  end
  if operation.is_vote then
    local abstains = abstention()
    if abstains then
      return abstains
    end
  end
  return operation.run(resources, ...)
end

local answers, next_key, next_argument = {}, 1, 6
while next_argument <= #ARGV do
  local operation = operations[ARGV[next_argument]]
  local resources = {}
  for i = 1, tonumber(ARGV[next_argument + 1]) do
    resources[i] = KEYS[next_key]
    next_key = next_key + 1
  end
  local first = next_argument + 2
  next_argument = first + operation.arguments
  local is_done, answer = pcall(execute, operation, resources, unpack(ARGV, first, next_argument - 1))
  if not is_done and type(answer) ~= 'table' then
    answer = { 'fault', tostring(answer) }
  end
  table.insert(answers, answer)
end
return answers
