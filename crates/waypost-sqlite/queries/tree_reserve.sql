-- reserve_births: more places in a tree; gives how many there are then. Served by the primary key of trees.
INSERT INTO trees (root, reserved) VALUES (?1, ?2)
ON CONFLICT (root) DO UPDATE SET reserved = trees.reserved + excluded.reserved
RETURNING reserved
