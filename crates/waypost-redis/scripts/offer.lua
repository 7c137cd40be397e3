-- Adds a task to a stream, unless it is there.
-- KEYS: the stream, the hash of its entries.
-- ARGV: the group, the offer's digest, its sealed task, how many may wait, the time to live of both
-- keys in ms.
-- Returns: 1 = added, 0 = it is there, 2 = too many wait.
own(KEYS[1], 'stream')
own(KEYS[2], 'hash')
local entry = redis.call('HGET', KEYS[2], ARGV[2])
if entry then
  local found = redis.pcall('XRANGE', KEYS[1], entry, entry)
  if failed(found) then
    repaired = repaired + 1
  elseif found[1] and found[1][2][2] == ARGV[2] then
    -- The task was taken, but its owner offers it again, so no worker has started it: replace the
    -- entry.
    local taken = redis.pcall('XPENDING', KEYS[1], ARGV[1], entry, entry, 1)
    if failed(taken) or not taken[1] then
      return { repaired, 0 }
    end
    redis.call('XACK', KEYS[1], ARGV[1], entry)
    redis.call('XDEL', KEYS[1], entry)
  end
end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[4]) then
  return { repaired, 2 }
end
entry = redis.pcall('XADD', KEYS[1], '*', 'i', ARGV[2], 'b', ARGV[3])
if failed(entry) then
  -- A stream whose last id is at the end of all ids takes nothing more.
  redis.call('UNLINK', KEYS[1], KEYS[2])
  repaired = repaired + 1
  entry = redis.call('XADD', KEYS[1], '*', 'i', ARGV[2], 'b', ARGV[3])
end
-- Marks of entries that went without us would gather here for ever.
if redis.call('HLEN', KEYS[2]) > 2 * tonumber(ARGV[4]) then
  redis.call('UNLINK', KEYS[2])
  repaired = repaired + 1
end
redis.call('HSET', KEYS[2], ARGV[2], entry)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return { repaired, 1 }
