-- fragment: pruned
-- The principal of a pruned job goes with it.
DELETE FROM windlass_principal
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
