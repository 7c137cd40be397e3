-- projector: this process owes nothing and will append nothing more. Served by the key of projectors.
DELETE FROM projectors WHERE id = $1
