-- reserve_births: more places in a tree; gives how many there are then. Served by the primary key of trees.
INSERT INTO trees AS tree (root, reserved) VALUES ($1, $2)
ON CONFLICT (root) DO UPDATE SET reserved = tree.reserved + excluded.reserved
RETURNING reserved
