-- append, audit: the place of an execution, also of one that has no control row. Served by the unique
-- key of slots and by slots_by_key.
SELECT key, holding,
       (SELECT count(*) FROM slots AS earlier
        WHERE earlier.key = slots.key AND earlier.ticket < slots.ticket)
FROM slots WHERE execution = ?1
