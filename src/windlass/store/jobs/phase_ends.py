"""Ends of phases of pipelines on the short way: recorded in the transaction of a step, before its claims.

The claims of the step see what these writes did. A job that goes on in a phase that the step claims from is therefore claimed in the same
commit, if it is its turn, and no other instance has to be notified of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.model import BESIDE_OUTPUTS, Advanced, Outcome, PhaseEnd, Verdict, Want
from windlass.store.database import Database, Row, Transaction
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.outcome_rows import pipeline_columns
from windlass.store.jobs.record import apply
from windlass.store.jobs.rows import PHASE


class PhaseEnds:
    """Ends of phases that one step of an instance records. The database may repeat a step, so each call begins anew."""

    def __init__(
        self, db: Database, inserter: Inserter, instance: str, ends: Sequence[PhaseEnd], wants: Sequence[Want]
    ) -> None:
        self._db = db
        self._inserter = inserter
        self._instance = instance
        self._ends = ends
        self._wants = wants
        self.verdicts: dict[str, Verdict] = {}
        self.reasons: dict[str, str] = {}
        self.unwritten: Sequence[Outcome] = ()
        """Ends that need more than the short way, or whose jobs are lost."""

    def record(self, tx: Transaction) -> None:
        """Write the ends."""
        if not self._db.records_phases:
            self.verdicts = apply(self._db, self._inserter, tx, self._ends, reasons=self.reasons)
            return
        ((written,),) = tx.run(
            "record.pipeline",
            **pipeline_columns(self._ends),
            expected=len(self._ends),
            aside=int(BESIDE_OUTPUTS),
            instance=self._instance,
        )
        ids = None if written is None else set(written.split(","))
        self.unwritten = [] if ids is None else [end for end in self._ends if end.lease.id not in ids]
        self.verdicts = {
            end.lease.id: Verdict.RECORDED for end in self._ends if ids is None or end.lease.id in ids
        }

    def notify(self, tx: Transaction, claimed: Sequence[Row]) -> None:
        """Hint at the phases in which jobs may be left: those that the step did not ask for, or that gave it all it had room for, or of which it
        leaves out fresh jobs."""
        if not self._db.records_phases:
            return  # done with the writes
        gone_on = {end.phase for end in self._ends if isinstance(end, Advanced)}
        if not gone_on:
            return
        counts = Counter(row[PHASE] for row in claimed)
        emptied = {want.phase for want in self._wants if counts[want.phase] < want.limit and not want.quiet}
        self._db.notify(tx, gone_on - emptied)
