-- projector: the last frame shown, in the transaction that shows it.
UPDATE meta SET cursor = ?1
