-- reserve_births: more places in a tree; gives how many there are then. Served by the primary key of trees.
INSERT INTO trees AS tree (root, reserved, used_at) VALUES ($1, $2, waypost_now())
ON CONFLICT (root) DO UPDATE SET reserved = tree.reserved + excluded.reserved, used_at = excluded.used_at
RETURNING reserved
