-- Deletes the lock of an instance on an execution. Another instance's lock stays.
-- KEYS: the lock. ARGV: the instance.
-- Returns: 1 = deleted, 0 = the lock is missing or names another instance.
if not lock_of(KEYS[1], ARGV[1]) then
  return { repaired, 0 }
end
redis.call('DEL', KEYS[1])
return { repaired, 1 }
