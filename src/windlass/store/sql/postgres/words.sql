-- What PostgreSQL writes in another way than SQLite, for the texts of both (sql/both/, both.sql of the features).

-- fragment: now
-- The time: that of the database's clock, unless a test sets it.
COALESCE(:now::timestamptz, clock_timestamp())

-- fragment: now_once
-- The time, read once for all rows, so that an index can be used.
(SELECT {{now}})

-- fragment: seconds(number)
-- A number of seconds as a span of time.
{number} * interval '1 second'

-- fragment: in_seconds(span)
-- A span of time in seconds.
EXTRACT(epoch FROM {span})::double precision

-- fragment: one_of(column, list)
-- The column has one of the values of a list, which is a parameter.
{column} = ANY({list})

-- fragment: found_by(column, value)
-- Two values are equal, as an index condition that is neither hashed nor merged.
{column} = ANY(ARRAY[{value}])

-- fragment: is_not
-- Two values, or rows of values, differ; NULL is a value.
IS DISTINCT FROM
