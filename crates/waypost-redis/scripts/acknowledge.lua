-- Deletes tasks that were taken and passed on.
-- KEYS: the stream, the hash of its entries. ARGV: the group, and of each its entry and its name.
-- Returns: how many there were.
own(KEYS[1], 'stream')
own(KEYS[2], 'hash')
local count = 0
for at = 2, #ARGV, 2 do
  redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[at])
  local gone = redis.pcall('XDEL', KEYS[1], ARGV[at])
  if not failed(gone) then
    count = count + gone
  end
  -- It may have been requeued meanwhile, as another entry.
  if redis.call('HGET', KEYS[2], ARGV[at + 1]) == ARGV[at] then
    redis.call('HDEL', KEYS[2], ARGV[at + 1])
  end
end
if redis.call('XLEN', KEYS[1]) == 0 then
  redis.call('UNLINK', KEYS[2])
end
return { repaired, count }
