-- Withdraws tasks that wait to be taken.
-- KEYS: the stream, the hash of its entries. ARGV: the group, the offers' digests.
-- Returns: how many were withdrawn.
own(KEYS[1], 'stream')
own(KEYS[2], 'hash')
local back = 0
for at = 2, #ARGV do
  local entry = redis.call('HGET', KEYS[2], ARGV[at])
  if entry then
    local taken = redis.pcall('XPENDING', KEYS[1], ARGV[1], entry, entry, 1)
    if failed(taken) or not taken[1] then
      local gone = redis.pcall('XDEL', KEYS[1], entry)
      if failed(gone) then
        repaired = repaired + 1
      else
        back = back + gone
      end
      redis.call('HDEL', KEYS[2], ARGV[at])
    end
  end
end
return { repaired, back }
