-- Stores a cancellation for a worker.
-- KEYS: the worker's cancellations. ARGV: the token's digest, the sealed token, its time to live in
-- ms.
-- Returns: 1.
own(KEYS[1], 'hash')
if redis.call('HLEN', KEYS[1]) > 10000 then
  redis.call('UNLINK', KEYS[1])
  repaired = repaired + 1
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return { repaired, 1 }
