-- projector: what this session commits may be lost with the server, the marks that say what is shown
-- together with the rows.
SELECT set_config('synchronous_commit', 'off', false)
