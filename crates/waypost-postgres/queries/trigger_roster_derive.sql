-- repair: above the revision of each trigger. Reads the small table of triggers.
UPDATE trigger_roster SET revision = 1 + greatest(revision, (SELECT coalesce(max(revision), 0) FROM triggers))
