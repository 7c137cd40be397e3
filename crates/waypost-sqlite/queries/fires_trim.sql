-- trim_triggers: items before a time whose executions are not unfinished. Served by trigger_fires_old and the
-- key of control.
DELETE FROM trigger_fires WHERE place IN (
    SELECT f.place FROM trigger_fires AS f
    WHERE f.at < ?1 AND NOT (f.open AND EXISTS (SELECT 1 FROM control AS c WHERE c.execution = f.execution))
    LIMIT ?2
)
