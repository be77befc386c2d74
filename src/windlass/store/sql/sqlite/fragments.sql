-- The slots of the core: texts that features add to verbs of the core. A feature defines a fragment of the same name in its own file; the
-- texts of all features are put there one after the other. Columns (agenda, history) are slots, too: see statements.py.

-- fragment: new_flags(kind)
-- Flags that a job of this kind gets when it is stored or comes into its queue: "| expression".

-- fragment: revived_flags(job)
-- Further flags of a job that is retried by hand: "| expression".

-- fragment: retried
-- Further statements of retry.take, while job :id still is in history.

-- fragment: revived
-- The same for children that come back with their parent.

-- fragment: cancel_details(job)
-- A JSON object with further details for the error of a cancelled job, or NULL, and a comma.

-- fragment: tidied
-- Further statements that remove rows of jobs that ended (:ids).

-- fragment: kept(job)
-- Conditions under which an ended job may be pruned: "AND condition".

-- fragment: pruned
-- Further statements that remove the rows of pruned jobs (:ids).
