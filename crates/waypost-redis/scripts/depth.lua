-- How many tasks wait to be taken, and how long the oldest has waited.
-- KEYS: the stream. ARGV: the group.
-- Returns: how many, and how long in ms.
own(KEYS[1], 'stream')
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { repaired, 0, 0 }
end
local waiting, after = redis.call('XLEN', KEYS[1]), '-'
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1])
if not failed(pending) then
  waiting = waiting - pending[1]
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local about = {}
    for at = 1, #group, 2 do about[group[at]] = group[at + 1] end
    if about['name'] == ARGV[1] then after = '(' .. about['last-delivered-id'] end
  end
end
local oldest = redis.pcall('XRANGE', KEYS[1], after, '+', 'COUNT', 1)
if waiting <= 0 or failed(oldest) or not oldest[1] then
  return { repaired, math.max(waiting, 0), 0 }
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local since = tonumber(string.match(oldest[1][1], '^(%d+)-'))
return { repaired, waiting, math.max(now - since, 0) }
