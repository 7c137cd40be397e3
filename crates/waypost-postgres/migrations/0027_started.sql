-- For a checker: the items that started an execution.
CREATE INDEX trigger_fires_started ON trigger_fires (execution) WHERE execution IS NOT NULL;
