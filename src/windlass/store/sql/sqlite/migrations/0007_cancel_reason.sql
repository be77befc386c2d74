-- Why a held job was asked to stop; the PostgreSQL file of the same name gives the reasons.

ALTER TABLE windlass_job ADD COLUMN cancel_reason TEXT;
