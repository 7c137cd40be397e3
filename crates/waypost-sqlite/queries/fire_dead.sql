-- define: an item that waited in a window became a dead letter. Served by the unique index of trigger_fires.
UPDATE trigger_fires SET outcome = ?3, reason = ?4 WHERE trigger = ?1 AND item = ?2
