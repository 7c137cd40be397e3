-- tests: the time that waypost_now returns in this session.
SELECT set_config('waypost.now', $1, false)
