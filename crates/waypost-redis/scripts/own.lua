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
