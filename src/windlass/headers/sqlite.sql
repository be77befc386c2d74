-- fragment: pruned
-- The headers of a pruned job go with it.
DELETE FROM windlass_job_headers
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
