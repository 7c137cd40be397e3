-- Deletes mail that was handed over long ago and never answered.
-- KEYS: the stream. ARGV: the group, the reader, how long ago in ms, how many.
-- Returns: how many were deleted.
own(KEYS[1], 'stream')
local old = redis.pcall('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], '0-0', 'COUNT', ARGV[4],
  'JUSTID')
if failed(old) then
  return { repaired, 0 }
end
for _, entry in ipairs(old[2]) do
  redis.call('XACK', KEYS[1], ARGV[1], entry)
  redis.call('XDEL', KEYS[1], entry)
end
return { repaired, #old[2] }
