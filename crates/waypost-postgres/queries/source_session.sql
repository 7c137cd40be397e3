-- tables: the settings of a connection to the database of a source. No object of the source is found by its name alone.
SELECT set_config('search_path', 'pg_catalog', false), set_config('statement_timeout', $1, false),
    set_config('lock_timeout', $2, false), set_config('idle_in_transaction_session_timeout', $1, false),
    set_config('timezone', 'UTC', false)
