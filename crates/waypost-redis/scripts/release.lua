-- Deletes the lock of an instance on an execution. Another instance's lock stays.
-- KEYS: the lock. ARGV: the instance.
-- Returns: 1 = deleted, 0 = the lock is missing or names another instance.
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
