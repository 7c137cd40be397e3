-- engine: the key of links and of tokens for workers.
SELECT key FROM cluster
