-- When the oldest tasks that wait to be taken were added.
-- KEYS: the stream. ARGV: the group, how many.
-- Returns: the ids of their entries.
own(KEYS[1], 'stream')
local ids = {}
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { repaired, ids }
end
local after = '-'
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
for _, group in ipairs(groups) do
  local named, last
  for at = 1, #group, 2 do
    if group[at] == 'name' then named = group[at + 1] end
    if group[at] == 'last-delivered-id' then last = group[at + 1] end
  end
  if named == ARGV[1] then after = '(' .. last end
end
local found = redis.pcall('XRANGE', KEYS[1], after, '+', 'COUNT', ARGV[2])
if failed(found) then
  -- The group has been moved to the end of all ids. Taking sets that right.
  found = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])
elseif not found[1] and redis.call('XLEN', KEYS[1]) > 0 then
  local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1])
  if not failed(pending) and redis.call('XLEN', KEYS[1]) > pending[1] then
    found = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])
  end
end
for _, entry in ipairs(found) do
  table.insert(ids, entry[1])
end
return { repaired, ids }
