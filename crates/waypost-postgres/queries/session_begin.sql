-- every connection, once: $1 search path, $2 to $4 time limits in milliseconds, $5 joins and $6
-- scans of whole tables. Plans are cached: a table that was empty then must not be scanned when it
-- is not.
SELECT set_config('search_path', $1, false),
       set_config('statement_timeout', $2, false),
       set_config('lock_timeout', $3, false),
       set_config('idle_in_transaction_session_timeout', $4, false),
       set_config('enable_hashjoin', $5, false),
       set_config('enable_mergejoin', $5, false),
       set_config('enable_seqscan', $6, false),
       set_config('jit', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('timezone', 'UTC', false)
