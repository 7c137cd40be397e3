-- Deaths of owners that count against an execution, and whether it was taken after one and not decided
-- since. Both are cleared by progress. From two deaths on it is taken alone.
ALTER TABLE control ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0 CHECK (crashes >= 0);
ALTER TABLE control ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0 CHECK (doubt IN (0, 1));
CREATE INDEX control_suspects ON control (crashes, execution) WHERE owner IS NULL AND crashes >= 2;
