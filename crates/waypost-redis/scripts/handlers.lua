-- Publishes handlers that have tasks, and returns published ones.
-- KEYS: the set of handlers. ARGV: how many to return, the set's time to live in ms, and the
-- handlers to publish.
-- Returns: handlers.
own(KEYS[1], 'set')
for at = 3, #ARGV do
  redis.call('SADD', KEYS[1], ARGV[at])
end
if #ARGV > 2 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local learnt = {}
for _, handler in ipairs(redis.call('SRANDMEMBER', KEYS[1], ARGV[1])) do
  if #handler <= 256 then
    table.insert(learnt, handler)
  else
    redis.call('SREM', KEYS[1], handler)
    repaired = repaired + 1
  end
end
return { repaired, learnt }
