-- append, inspect: how many executions hold a permit of a key. Served by permits_holding.
SELECT count(*) FROM permits WHERE key = ?1 AND holding = 1
