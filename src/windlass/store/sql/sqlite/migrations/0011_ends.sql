-- An end is final whoever writes. SQLite builds no message from values before 3.47, so each pair of states has its own.
-- A retry inserts a new generation before it removes the row of history: that one may come back.
DROP TRIGGER windlass_job_done_is_final;
CREATE TRIGGER windlass_job_done_is_final BEFORE UPDATE ON windlass_job_done
BEGIN
    SELECT CASE OLD.state || ' ' || NEW.state
        WHEN 'completed completed' THEN RAISE(ABORT, 'a completed job does not change; an ended job leaves its state only by retry')
        WHEN 'completed waiting' THEN RAISE(ABORT, 'a completed job cannot become waiting; an ended job leaves its state only by retry')
        WHEN 'completed scheduled' THEN RAISE(ABORT, 'a completed job cannot become scheduled; an ended job leaves its state only by retry')
        WHEN 'completed queued' THEN RAISE(ABORT, 'a completed job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'completed processing' THEN RAISE(ABORT, 'a completed job cannot become processing; an ended job leaves its state only by retry')
        WHEN 'completed failed' THEN RAISE(ABORT, 'a completed job cannot become failed; an ended job leaves its state only by retry')
        WHEN 'completed cancelled' THEN RAISE(ABORT, 'a completed job cannot become cancelled; an ended job leaves its state only by retry')
        WHEN 'failed failed' THEN RAISE(ABORT, 'a failed job does not change; an ended job leaves its state only by retry')
        WHEN 'failed waiting' THEN RAISE(ABORT, 'a failed job cannot become waiting; an ended job leaves its state only by retry')
        WHEN 'failed scheduled' THEN RAISE(ABORT, 'a failed job cannot become scheduled; an ended job leaves its state only by retry')
        WHEN 'failed queued' THEN RAISE(ABORT, 'a failed job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'failed processing' THEN RAISE(ABORT, 'a failed job cannot become processing; an ended job leaves its state only by retry')
        WHEN 'failed completed' THEN RAISE(ABORT, 'a failed job cannot become completed; an ended job leaves its state only by retry')
        WHEN 'failed cancelled' THEN RAISE(ABORT, 'a failed job cannot become cancelled; an ended job leaves its state only by retry')
        WHEN 'cancelled cancelled' THEN RAISE(ABORT, 'a cancelled job does not change; an ended job leaves its state only by retry')
        WHEN 'cancelled waiting' THEN RAISE(ABORT, 'a cancelled job cannot become waiting; an ended job leaves its state only by retry')
        WHEN 'cancelled scheduled' THEN RAISE(ABORT, 'a cancelled job cannot become scheduled; an ended job leaves its state only by retry')
        WHEN 'cancelled queued' THEN RAISE(ABORT, 'a cancelled job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'cancelled processing' THEN RAISE(ABORT, 'a cancelled job cannot become processing; an ended job leaves its state only by retry')
        WHEN 'cancelled completed' THEN RAISE(ABORT, 'a cancelled job cannot become completed; an ended job leaves its state only by retry')
        WHEN 'cancelled failed' THEN RAISE(ABORT, 'a cancelled job cannot become failed; an ended job leaves its state only by retry')
        ELSE RAISE(ABORT, 'an ended job cannot get a state that there is not; an ended job leaves its state only by retry')
    END;
END;

CREATE TRIGGER windlass_job_not_ended BEFORE INSERT ON windlass_job
WHEN EXISTS (SELECT 1 FROM windlass_job_done AS d WHERE d.id = NEW.id AND d.generation >= NEW.generation)
BEGIN
    SELECT CASE d.state || ' ' || CASE WHEN NEW.token IS NULL THEN 'queued' ELSE 'processing' END
        WHEN 'completed queued' THEN RAISE(ABORT, 'a completed job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'completed processing' THEN RAISE(ABORT, 'a completed job cannot become processing; an ended job leaves its state only by retry')
        WHEN 'failed queued' THEN RAISE(ABORT, 'a failed job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'failed processing' THEN RAISE(ABORT, 'a failed job cannot become processing; an ended job leaves its state only by retry')
        WHEN 'cancelled queued' THEN RAISE(ABORT, 'a cancelled job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'cancelled processing' THEN RAISE(ABORT, 'a cancelled job cannot become processing; an ended job leaves its state only by retry')
    END
    FROM windlass_job_done AS d
    WHERE d.id = NEW.id;
END;

CREATE TRIGGER windlass_job_later_not_ended BEFORE INSERT ON windlass_job_later
WHEN EXISTS (SELECT 1 FROM windlass_job_done AS d WHERE d.id = NEW.id AND d.generation >= NEW.generation)
BEGIN
    SELECT CASE d.state || ' ' || CASE WHEN NEW.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN NEW.reason = 'inbox' THEN 'queued' ELSE 'waiting' END
        WHEN 'completed waiting' THEN RAISE(ABORT, 'a completed job cannot become waiting; an ended job leaves its state only by retry')
        WHEN 'completed scheduled' THEN RAISE(ABORT, 'a completed job cannot become scheduled; an ended job leaves its state only by retry')
        WHEN 'completed queued' THEN RAISE(ABORT, 'a completed job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'failed waiting' THEN RAISE(ABORT, 'a failed job cannot become waiting; an ended job leaves its state only by retry')
        WHEN 'failed scheduled' THEN RAISE(ABORT, 'a failed job cannot become scheduled; an ended job leaves its state only by retry')
        WHEN 'failed queued' THEN RAISE(ABORT, 'a failed job cannot become queued; an ended job leaves its state only by retry')
        WHEN 'cancelled waiting' THEN RAISE(ABORT, 'a cancelled job cannot become waiting; an ended job leaves its state only by retry')
        WHEN 'cancelled scheduled' THEN RAISE(ABORT, 'a cancelled job cannot become scheduled; an ended job leaves its state only by retry')
        WHEN 'cancelled queued' THEN RAISE(ABORT, 'a cancelled job cannot become queued; an ended job leaves its state only by retry')
    END
    FROM windlass_job_done AS d
    WHERE d.id = NEW.id;
END;
