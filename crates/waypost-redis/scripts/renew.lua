-- Renews the lock that shows an instance as the owner of an execution, if the lock names that
-- instance.
-- KEYS: the lock. ARGV: the instance, the expiry time (as text), the time to live in ms.
-- Returns: 1 = renewed, 0 = the lock is missing or names another instance.
local lock = lock_of(KEYS[1], ARGV[1])
if not lock then
  return { repaired, 0 }
end
local since = lock['acquiredAt']
if type(since) ~= 'string' then
  since = nil
end
local renewed = { instanceId = ARGV[1], acquiredAt = since, expiresAt = ARGV[2] }
redis.call('SET', KEYS[1], cjson.encode(renewed), 'PX', ARGV[3])
return { repaired, 1 }
