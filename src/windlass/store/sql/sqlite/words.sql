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
