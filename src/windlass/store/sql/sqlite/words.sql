-- What SQLite writes in another way than PostgreSQL; times are whole microseconds, lists are JSON.

-- fragment: now
-- The time: the machine's clock, in a transaction read after the write lock was taken.
:now

-- fragment: now_once
-- The time.
:now

-- fragment: seconds(number)
-- A number of seconds as a span of time.
CAST({number} * 1000000 AS INTEGER)

-- fragment: in_seconds(span)
-- A span of time in seconds.
({span}) / 1000000.0

-- fragment: one_of(column, list)
-- The column has one of the values of a list, which is a parameter.
{column} IN (SELECT g.value FROM json_each({list}) AS g)

-- fragment: found_by(column, value)
-- Two values are equal.
{column} = {value}

-- fragment: is_not
-- Two values, or rows of values, differ; NULL is a value.
IS NOT

-- fragment: is_same
-- Two values are equal; NULL is a value.
IS

-- fragment: begins_with(column, list)
-- Whether the column begins with one of the texts of a list, which is a parameter.
EXISTS (SELECT 1 FROM json_each({list}) AS g WHERE substr({column}, 1, length(g.value)) = g.value)

-- fragment: in_group(column, id, value, before)
-- Rows of an index of a column and an id that have a value of the column and an id before one. ORDER BY newest_of follows.
{column} = {value}
AND {id} < {before}

-- fragment: in_span(column, id, value, from, before)
-- The same for ids from one on and before another.
{column} = {value}
AND {id} < {before}
AND {id} >= {from}

-- fragment: newest_of(column, id)
-- The order of rows of in_group, newest first.
{id} DESC
