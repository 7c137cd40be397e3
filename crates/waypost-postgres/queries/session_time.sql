-- tests: the time that waypost_now tells in this session.
SELECT set_config('waypost.now', $1, false)
