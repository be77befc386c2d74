-- Headers of a job, beside the job: one without headers pays nothing. The flag 4096 of a job's row says that it has some.
CREATE TABLE windlass.job_headers (
    job uuid NOT NULL,
    headers jsonb NOT NULL,
    CONSTRAINT job_headers_pkey PRIMARY KEY (job)
);
