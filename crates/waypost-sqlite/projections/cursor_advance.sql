-- projector: the last projected frame and its time, in the transaction that projects it.
UPDATE meta SET cursor = ?1, shown_at = ?2
