-- Shows no longer that an instance owns an execution. What another has put there stays.
-- KEYS: the lock. ARGV: the instance.
-- Says: 1 = it was shown, 0 = nobody or another is.
own(KEYS[1], 'string')
if redis.call('STRLEN', KEYS[1]) > 4096 then
  redis.call('UNLINK', KEYS[1])
  repaired = repaired + 1
end
local value = redis.call('GET', KEYS[1])
if not value then
  return { repaired, 0 }
end
local good, lock = pcall(cjson.decode, value)
if not good or type(lock) ~= 'table' or type(lock['instanceId']) ~= 'string' then
  redis.call('DEL', KEYS[1])
  return { repaired + 1, 0 }
end
if lock['instanceId'] ~= ARGV[1] then
  return { repaired, 0 }
end
redis.call('DEL', KEYS[1])
return { repaired, 1 }
