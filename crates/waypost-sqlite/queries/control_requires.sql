-- append: a frame needs a newer fold than the first one. Served by the key of control.
UPDATE control SET requires = ?2 WHERE execution = ?1 AND requires < ?2
