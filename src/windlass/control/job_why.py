"""Why a job is not running, as far as an actor may know it."""

from __future__ import annotations

from windlass.control.noun import Noun, off_loop
from windlass.control.why.codes import Why
from windlass.control.why.decide import decide
from windlass.control.why.facts import Facts


class JobWhy(Noun):
    """Names the reasons why a job is not running."""

    def why(self, job_id: str) -> Why:
        """Why a job is not running: a code, a sentence, facts, and further reasons that hold at the same time.

        A job that is not there has the code ``unknown`` for an actor who sees all jobs; for others it raises ``JobNotFoundError``, like the job of
        another person. Facts that only instances know are as old as their last heartbeat.

        >>> app.jobs.why(job_id).sentence
        'retries at 14:05:10 UTC (in 4 min), attempt 3 of 5, after ValueError: bad row'
        """
        self._require_job(job_id)
        return decide(Facts(self._store, self._actor.scope, self._payload), job_id)

    why_async = off_loop(why)
