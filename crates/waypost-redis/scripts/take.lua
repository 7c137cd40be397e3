-- Takes the oldest entries of a stream that no consumer has taken.
-- KEYS: the stream. ARGV: the group, the consumer, how many, bytes that an entry may have, bytes
-- after which no more are read.
-- Returns: { entry, name, body } of each. Entries of another shape are deleted.
own(KEYS[1], 'stream')
local taken, left, bytes = {}, tonumber(ARGV[3]), 0
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { repaired, taken }
end
-- A few at a time: how large they are is not known before they are read.
local function read()
  return redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', math.min(left, 4),
    'STREAMS', KEYS[1], '>')
end
local reply = read()
if failed(reply) then
  -- No group yet, or no longer.
  redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0')
  reply = read()
end
if not reply then
  -- Untaken entries come after the group's position. If some come before it, the position was moved
  -- from outside: reset it.
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1])
  if redis.call('XLEN', KEYS[1]) > pending[1] then
    redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], '0')
    repaired = repaired + 1
    reply = read()
  end
end
if failed(reply) then
  redis.call('UNLINK', KEYS[1])
  return { repaired + 1, taken }
end
while reply and not failed(reply) do
  for _, entry in ipairs(reply[1][2]) do
    local id, fields = entry[1], entry[2]
    if fields and #fields == 4 and fields[1] == 'i' and fields[3] == 'b' and #fields[2] <= 64
        and #fields[4] <= tonumber(ARGV[4]) then
      table.insert(taken, { id, fields[2], fields[4] })
      bytes = bytes + #fields[4]
    else
      redis.call('XACK', KEYS[1], ARGV[1], id)
      redis.call('XDEL', KEYS[1], id)
      repaired = repaired + 1
    end
    left = left - 1
  end
  if left <= 0 or bytes >= tonumber(ARGV[5]) then
    break
  end
  reply = read()
end
return { repaired, taken }
