"""Rules as a feature of jobs: the end of a job whose kind has rules makes the children of these rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.errors import ActRefusedError
from windlass.model import Flag
from windlass.rules.duty import CatchUp
from windlass.rules.on_end import fire
from windlass.rules.store import Rules
from windlass.store.database import Database, Transaction
from windlass.store.feature import EditedJob, EndedJob, Feature, FeatureDuty, MovedJob, Recording
from windlass.store.jobs.enqueue import Inserter


class RulesFeature(Feature):
    """Jobs of kinds that have rules are flagged when they are stored (``new_flags`` in SQL), and fire the rules when they end."""

    name = "rules"
    flag = Flag.RULES

    def kind_flags(self, db: Database) -> Mapping[str, int]:
        return {row[0]: int(Flag.RULES) for row in db.run("rule.kinds")}

    def on_recorded(
        self, call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob]
    ) -> Sequence[EndedJob]:
        if ended:
            fire(call.inserter, call.tx, [job.id for job in ended], inbox=call.is_foreign)
        return ()

    def on_edited(self, tx: Transaction, job: EditedJob) -> None:
        """The key of a fan-in is made of a job when it ends, so of the new arguments; but an earlier end of a retried job stays where it is."""
        for (rule,) in tx.run("hit.counted", id=job.id):
            why = f"an earlier end of it counts in a fan-in of rule {rule}, under a key of its arguments as they were; submit a new job"
            raise ActRefusedError(job.id, "edit", job.state, why)

    def duties(self, db: Database, inserter: Inserter, every: float) -> Sequence[FeatureDuty]:
        catch_up = CatchUp(Rules(db, inserter), every=every)
        return [FeatureDuty("rules", lambda _: True, catch_up.run, is_long=True)]

    def on_pruned(self, db: Database) -> None:
        db.run("prune.hits")
        db.run("prune.fan_ins")
