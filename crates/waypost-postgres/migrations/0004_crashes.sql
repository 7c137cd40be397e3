-- Deaths of owners that count against an execution, and whether it was taken after one and not decided
-- since. Both are cleared by progress. From two deaths on it is taken alone.
ALTER TABLE control ADD COLUMN crashes bigint NOT NULL DEFAULT 0;
ALTER TABLE control ADD COLUMN doubt boolean NOT NULL DEFAULT false;
CREATE INDEX control_suspects ON control (crashes, execution) WHERE crashes >= 1;
