-- append, inspect: the place of an execution, also of one that has no control row. Served by the unique
-- key of permits and by permits_by_key.
SELECT key, holding,
       (SELECT count(*) FROM permits AS earlier
        WHERE earlier.key = permits.key AND earlier.ticket < permits.ticket)
FROM permits WHERE execution = ?1
