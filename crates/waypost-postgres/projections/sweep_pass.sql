-- sweeper: all rows before place $1 are projected. Served by the key of sweeper.
UPDATE sweeper SET place = $1 WHERE place < $1
