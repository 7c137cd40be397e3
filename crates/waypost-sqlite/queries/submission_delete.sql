-- append: gives the names back when the frame did not go in. Served by the key of submissions.
DELETE FROM submissions WHERE execution = ?1
