-- projector: the mark of this process as the database has it. Served by the key of projectors.
SELECT done FROM projectors WHERE id = $1
