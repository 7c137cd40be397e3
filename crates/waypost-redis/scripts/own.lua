-- Put before every script. A key may hold anything: one of the wrong type is deleted, and counted.
local repaired = 0
local function own(key, kind)
  local type = redis.call('TYPE', key)['ok']
  if type ~= 'none' and type ~= kind then
    redis.call('UNLINK', key)
    repaired = repaired + 1
  end
end
local function failed(reply)
  return type(reply) == 'table' and reply['err'] ~= nil
end
-- The lock of an instance; nil where there is none or it names another instance. A value that is not a
-- lock is deleted, and counted.
local function lock_of(key, instance)
  own(key, 'string')
  if redis.call('STRLEN', key) > 4096 then
    redis.call('UNLINK', key)
    repaired = repaired + 1
  end
  local value = redis.call('GET', key)
  if not value then
    return nil
  end
  local good, lock = pcall(cjson.decode, value)
  if not good or type(lock) ~= 'table' or type(lock['instanceId']) ~= 'string' then
    redis.call('DEL', key)
    repaired = repaired + 1
    return nil
  end
  if lock['instanceId'] == instance then
    return lock
  end
  return nil
end
