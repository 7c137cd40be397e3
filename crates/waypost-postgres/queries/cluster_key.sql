-- tasks: the key that all instances share.
SELECT key FROM cluster
