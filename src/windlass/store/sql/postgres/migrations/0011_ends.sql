-- SQLite refuses to insert an ended job again, by a trigger. There is none here: whatever a trigger looks up costs a search in every day's
-- partition, and the moves between `job` and `job_later` would pay for it with each job. Measured: docs/decisions/0001-data-model.md.
SELECT 1;
