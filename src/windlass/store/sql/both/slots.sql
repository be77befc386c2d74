-- The slots of the core: texts that features add to verbs of the core. A feature defines a fragment of the same name in its own file; the
-- texts of all features are put there one after the other.
-- Where a slot is for "further parts", PostgreSQL has CTEs there and SQLite statements.

-- fragment: new_flags(kind)
-- Flags that a job of this kind gets when it is stored or comes into its queue: "| expression".

-- fragment: revived_flags(job)
-- Further flags of a job that is retried by hand: "| expression".

-- fragment: retried
-- Further parts of retry.take, which brings a job of history back into its queue (rows of `taken`; on SQLite, the job :id still in history).

-- fragment: revived
-- The same for children that come back with their parent (rows of `taken`; on SQLite, :children).

-- fragment: cancel_details(job)
-- A JSON object with further details for the error of a cancelled job, or NULL, and a comma.

-- fragment: tidied
-- Further parts that remove rows of jobs that ended (:ids).

-- fragment: kept(job)
-- Conditions under which an ended job may be pruned: "AND condition".

-- fragment: pruned
-- Further parts that remove the rows of pruned jobs (rows of `gone`; on SQLite, :ids).

-- fragment: needed(table)
-- Conditions under which a whole table of history must not be dropped, the same as those of `kept`: "OR condition". On PostgreSQL alone.

-- fragment: in_scope(job)
-- Conditions under which an actor may see a job: "AND condition". The parameters are those of `Scope.parameters`.

-- fragment: sought(job)
-- Further conditions of a search, by rows of features: "AND condition". Columns are those of `ended_candidate`.

-- slot: agenda
-- Columns of the agenda: what a duty of the feature has to do.

-- slot: view
-- Columns of one job as `get` shows it, behind its own.

-- slot: history
-- Columns of an ended job.
