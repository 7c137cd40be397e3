-- projector: the last frame shown and its time, in the transaction that shows it.
UPDATE meta SET cursor = ?1, shown_at = ?2
