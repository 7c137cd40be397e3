-- Adds mail to an instance's stream and rings its bell.
-- KEYS: the stream. ARGV: the name of the mail, its sealed body, how many entries may wait, the
-- stream's time to live in ms, the channel of the bell.
-- Returns: 1 = added, 0 = too many wait; and how many subscribers received the bell.
own(KEYS[1], 'stream')
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[3]) then
  return { repaired, 0, 0 }
end
local entry = redis.pcall('XADD', KEYS[1], '*', 'i', ARGV[1], 'b', ARGV[2])
if failed(entry) then
  redis.call('UNLINK', KEYS[1])
  repaired = repaired + 1
  redis.call('XADD', KEYS[1], '*', 'i', ARGV[1], 'b', ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return { repaired, 1, redis.call('PUBLISH', ARGV[5], '1') }
