-- fragment: pruned
-- The log of a pruned job goes with it.
DELETE FROM windlass_job_log
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
