-- define: how many triggers there are.
SELECT count(*) FROM triggers
