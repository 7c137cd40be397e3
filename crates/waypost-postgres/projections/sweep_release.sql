-- sweeper: this process ($1) ends; the next one need not wait for the end of its lease. Served by the key of
-- sweeper.
UPDATE sweeper SET held_until = 0 WHERE holder = $1
