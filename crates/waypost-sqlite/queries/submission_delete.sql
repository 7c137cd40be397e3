-- append: releases the names if the frame was not inserted. Served by the key of submissions.
DELETE FROM submissions WHERE execution = ?1
