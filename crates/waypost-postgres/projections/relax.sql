-- projector: a crash of the server may lose the last commits of this session. It loses the sweeper's place
-- before the rows that the place vouches for, since those were committed first.
SELECT set_config('synchronous_commit', 'off', false)
