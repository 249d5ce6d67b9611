-- read_clock.lua  ARGV  ->  clock milliseconds
node.arity.read_clock = 0
function node.read_clock()
  return { 'clock', node.milliseconds() }
end
