-- add_endpoint: appends wait behind a lock that is waited for, so that is given up early, but not before a
-- vacuum of the table, which makes way after a second.
SELECT set_config('lock_timeout', '1500', true)
