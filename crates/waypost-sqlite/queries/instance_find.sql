-- every write: the number of an instance. Served by the unique key of instances.
SELECT number FROM instances WHERE id = ?1
