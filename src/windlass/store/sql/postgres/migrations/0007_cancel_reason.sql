-- Why a held job was asked to stop, beside when (cancel_at): whoever ends it keeps that with its end. Not indexed, and NULL on almost
-- every row, so that claims stay HOT. Adding it rewrites no row.

ALTER TABLE windlass.job ADD COLUMN cancel_reason text;
