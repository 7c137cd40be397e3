-- Renews the lock that shows an instance as the owner of an execution, if the lock names that
-- instance.
-- KEYS: the lock. ARGV: the instance, the expiry time (as text), the time to live in ms.
-- Returns: 1 = renewed, 0 = the lock is missing or names another instance.
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
local since = lock['acquiredAt']
if type(since) ~= 'string' then
  since = nil
end
local renewed = { instanceId = ARGV[1], acquiredAt = since, expiresAt = ARGV[2] }
redis.call('SET', KEYS[1], cjson.encode(renewed), 'PX', ARGV[3])
return { repaired, 1 }
