-- Requeues tasks that were taken and never acknowledged, and removes consumers that are gone.
-- KEYS: the stream, the hash of its entries. ARGV: the group, the claiming consumer, the idle time
-- in ms, the start of the scan, how many, the idle time after which a consumer without entries is
-- gone, and the hash's time to live, both in ms.
-- Returns: how many were requeued, where to continue ('0-0' = done), and how many consumers were
-- removed.
own(KEYS[1], 'stream')
own(KEYS[2], 'hash')
local claimed, forgotten = 0, 0
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { repaired, 0, '0-0', 0 }
end
local reply = redis.pcall('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4],
  'COUNT', ARGV[5])
if failed(reply) then
  -- No group: nothing was taken.
  return { repaired, 0, '0-0', 0 }
end
for _, entry in ipairs(reply[2]) do
  -- Entries that were deleted while they were pending come as nothing, or not at all.
  if entry and entry[2] then
    local id, fields = entry[1], entry[2]
    redis.call('XACK', KEYS[1], ARGV[1], id)
    redis.call('XDEL', KEYS[1], id)
    local again = #fields == 4 and fields[1] == 'i' and fields[3] == 'b'
      and redis.pcall('XADD', KEYS[1], '*', 'i', fields[2], 'b', fields[4])
    if again and not failed(again) then
      redis.call('HSET', KEYS[2], fields[2], again)
      redis.call('PEXPIRE', KEYS[2], ARGV[7])
      claimed = claimed + 1
    else
      repaired = repaired + 1
    end
  end
end
if reply[1] == '0-0' then
  for _, taker in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local about = {}
    for at = 1, #taker, 2 do about[taker[at]] = taker[at + 1] end
    -- One with entries left must not go: they would never be claimed.
    if about['name'] ~= ARGV[2] and about['pending'] == 0 and about['idle'] > tonumber(ARGV[6]) then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], about['name'])
      forgotten = forgotten + 1
    end
  end
end
return { repaired, claimed, reply[1], forgotten }
