-- dispatch.lua  KEYS resources of all entries  ARGV header, (operation, number of resources, arguments) ...  ->  answers
local answers, next_key, next_argument = {}, 1, 6
while next_argument <= #ARGV do
  local name, count = ARGV[next_argument], ARGV[next_argument + 1]
  node.need(name)
  local resources = { unpack(KEYS, next_key, next_key + count - 1) }
  local first, last = next_argument + 2, next_argument + 1 + node.arity[name]
  local is_done, answer = pcall(node[name], resources, unpack(ARGV, first, last))
  -- Of the errors, tables are answers, unless they are those of commands; before version 7, those are texts.
  if not is_done and (type(answer) ~= 'table' or answer.err) then
    answer = { 'fault', type(answer) == 'table' and answer.err or tostring(answer) }
  end
  answers[#answers + 1] = answer
  next_key, next_argument = next_key + count, last + 1
end
return answers
