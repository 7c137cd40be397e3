-- Which instance has claimed a message: others release its claims when its lease has expired.
ALTER TABLE outbox ADD COLUMN claimer INTEGER;
