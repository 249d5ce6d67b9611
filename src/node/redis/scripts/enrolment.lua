-- enrolment.lua  ->  what enrol, init and reconfigure share

function node.write_record(floor)
  redis.call('HSET', 'redquorum:node', 'run', node.run() or '', 'floor', node.text_of(floor), 'fingerprint', node.fingerprint)
  node.known_record = false
end

function node.enrolled()
  local is_quarantined = redis.call('EXISTS', 'redquorum:quarantine') == 1
  return { 'enrolled', node.run(), is_quarantined and math.max(redis.call('PTTL', 'redquorum:quarantine'), 0) or nil }
end
