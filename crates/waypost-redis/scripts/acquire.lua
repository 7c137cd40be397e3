-- Locks an execution for an instance, unless another instance has the lock.
-- KEYS: the lock. ARGV: the instance, now, when it expires (both as text), how long that is in ms.
-- Returns: 1 = locked, 0 = another instance has it.
own(KEYS[1], 'string')
if redis.call('STRLEN', KEYS[1]) > 4096 then
  redis.call('UNLINK', KEYS[1])
  repaired = repaired + 1
end
local value = redis.call('GET', KEYS[1])
local since = ARGV[2]
if value then
  local good, lock = pcall(cjson.decode, value)
  if good and type(lock) == 'table' and type(lock['instanceId']) == 'string'
      and redis.call('PTTL', KEYS[1]) > 0 then
    if lock['instanceId'] ~= ARGV[1] then
      return { repaired, 0 }
    end
    if type(lock['acquiredAt']) == 'string' then
      since = lock['acquiredAt']
    end
  else
    -- Not one of our locks, or one that would never expire.
    repaired = repaired + 1
  end
end
local lock = { instanceId = ARGV[1], acquiredAt = since, expiresAt = ARGV[3] }
redis.call('SET', KEYS[1], cjson.encode(lock), 'PX', ARGV[4])
return { repaired, 1 }
