-- Records that one of n has arrived.
-- KEYS: the set of those that have. ARGV: who, for how long to remember in ms.
-- Says: whether it is the first time that this one arrived, and how many have.
own(KEYS[1], 'set')
local first = redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { repaired, first, redis.call('SCARD', KEYS[1]) }
