-- Headers of a job; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_job_headers (
    job TEXT NOT NULL PRIMARY KEY,
    headers TEXT NOT NULL
) STRICT;
