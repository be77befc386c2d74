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

-- fragment: is_same
-- Two values are equal; NULL is a value.
IS NOT DISTINCT FROM

-- fragment: begins_with(column, list)
-- Whether the column begins with one of the texts of a list, which is a parameter.
{column} ^@ ANY({list})

-- fragment: in_group(column, id, value, before)
-- Rows of an index of a column and an id that have a value of the column and an id before one. ORDER BY newest_of follows. The
-- comparison of rows leaves the planner no other index: one of the id alone has the order, too, and would be read past all other values.
({column}, {id}) < ({value}, {before})
AND {column} >= {value}

-- fragment: in_span(column, id, value, from, before)
-- The same for ids from one on and before another. Both ends are comparisons of rows, so that the index is read between them alone.
({column}, {id}) < ({value}, {before})
AND ({column}, {id}) >= ({value}, {from})

-- fragment: newest_of(column, id)
-- The order of rows of in_group, newest first.
{column} DESC, {id} DESC
