-- append: is the parent (?2 its first seq, ?4 its append id) the frame that ends at ?3? Served by
-- frames_by_execution.
SELECT last_seq = ?3 AND append_id = ?4 FROM frames WHERE execution = ?1 AND first_seq = ?2
