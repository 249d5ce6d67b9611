-- leading.lua  resource  ->  where a leader shows its value

-- Always in braces: `a` and `{a}` are two elections.
function node.leader_name(resource)
  return 'redquorum:leader:{' .. resource .. '}'
end
