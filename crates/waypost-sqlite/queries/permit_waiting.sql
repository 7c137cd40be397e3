-- append, inspect: the first rows of a key that wait. Served by permits_waiting.
SELECT ticket, execution, most FROM permits WHERE key = ?1 AND holding = 0 ORDER BY ticket LIMIT ?2
