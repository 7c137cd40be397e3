-- A page of a stream that is not one of ours, and its counters at the same moment. Changes nothing.
-- KEYS: the stream. ARGV: after which id ('' for no entries), how many entries, bytes of an entry, bytes of a page.
-- Returns nil where there is no such key; otherwise length, newest id, entries ever added (-1 where the server
-- does not count them), oldest id or '', 1 where there is more, and the entries: {id, fields}, or {id, bytes} for
-- one that is too large.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local about = {}
for i = 1, #info, 2 do
  about[info[i]] = info[i + 1]
end
local oldest = about['first-entry'] and about['first-entry'][1] or ''
local page, bytes, more = {}, 0, 0
if ARGV[1] ~= '' then
  local count = tonumber(ARGV[2])
  local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', count + 1)
  for i, entry in ipairs(found) do
    local size = 0
    for _, text in ipairs(entry[2]) do
      size = size + #text
    end
    if size > tonumber(ARGV[3]) then
      entry = { entry[1], size }
      size = 0
    end
    bytes = bytes + size
    if i > count or (bytes > tonumber(ARGV[4]) and i > 1) then
      more = 1
      break
    end
    page[i] = entry
  end
end
return { about['length'], about['last-generated-id'], about['entries-added'] or -1, oldest, more, page }
