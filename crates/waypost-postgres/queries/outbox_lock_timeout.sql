-- add_endpoint: appends wait behind a lock that is waited for, so that is given up early.
SELECT set_config('lock_timeout', '500', true)
