-- trim_triggers: items before a time whose executions are not unfinished, and whose triggers are not paused or
-- broken: these may have fired a part of a page that they read again. Served by trigger_fires_old and the keys of
-- control and triggers.
DELETE FROM trigger_fires WHERE place IN (
    SELECT f.place FROM trigger_fires AS f
    WHERE f.at < ?1 AND NOT (f.open AND EXISTS (SELECT 1 FROM control AS c WHERE c.execution = f.execution))
          AND NOT EXISTS (SELECT 1 FROM triggers AS t WHERE t.number = f.trigger AND t.state IN (1, 2))
    LIMIT ?2
)
