-- Stores a worker's sign of life, and returns its cancellations.
-- KEYS: its sign of life, its cancellations. ARGV: the sealed sign (empty = the worker leaves), its
-- time to live in ms.
-- Returns: the sealed tokens of cancelled attempts.
own(KEYS[1], 'string')
own(KEYS[2], 'hash')
if ARGV[1] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
local stop = {}
if redis.call('EXISTS', KEYS[2]) == 1 then
  if redis.call('HLEN', KEYS[2]) > 10000 then
    repaired = repaired + 1
  else
    for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
      if redis.call('HSTRLEN', KEYS[2], field) <= 256 then
        table.insert(stop, redis.call('HGET', KEYS[2], field))
      else
        repaired = repaired + 1
      end
    end
  end
  redis.call('UNLINK', KEYS[2])
end
return { repaired, stop }
