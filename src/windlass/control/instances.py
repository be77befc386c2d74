"""Instances: the workers that the database knows, with what each says of its processors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windlass.control.instance_acts import InstanceActs
from windlass.control.noun import off_loop
from windlass.control.system_views import DegradedPart as DegradedPart
from windlass.control.system_views import InstanceView as InstanceView
from windlass.control.system_views import PhaseView as PhaseView
from windlass.control.system_views import Pool as Pool
from windlass.control.system_views import PoolMember as PoolMember
from windlass.control.why.fleet import Member, mapping, read_fleet
from windlass.features import Store


class InstanceControl(InstanceActs):
    """Lists and drains instances, and changes their processors."""

    def list(self) -> Sequence[InstanceView]:
        """All instances the database knows, newest first."""
        self._actor.require_all("list instances")
        return views(self._store, self._store.now())

    def pools(self) -> Sequence[Pool]:
        """The processors of each phase on all living instances, by phase."""
        members: dict[str, dict[str, tuple[InstanceView, PhaseView]]] = {}
        for instance in self.list():
            for phase in instance.phases if instance.is_alive else ():
                members.setdefault(phase.name, {})[instance.id] = (instance, phase)
        return [_pool(name, [*found.values()]) for name, found in sorted(members.items())]

    list_async = off_loop(list)
    pools_async = off_loop(pools)


def views(store: Store, now: datetime) -> Sequence[InstanceView]:
    """All instances at a time of the database, newest first: two reads."""
    return [_view(member, now) for member in read_fleet(store, now).members.values()]


def _pool(phase: str, found: Sequence[tuple[InstanceView, PhaseView]]) -> Pool:
    members = [
        PoolMember(
            instance=instance.id,
            host=instance.host,
            size=one.size,
            busy=one.busy,
            error=one.error,
            queue=one.queue,
        )
        for instance, one in found
    ]
    return Pool(phase=phase, members=members)


def _view(member: Member, now: datetime) -> InstanceView:
    one = member.instance
    if one.dead_at is not None:
        state = "dead"
    else:
        state = str(member.facts.get("state", "running")) if member.is_alive(now) else "lost"
    pid = one.info.get("pid")
    running = member.facts.get("processors")
    return InstanceView(
        id=str(one.id),
        host=str(one.info.get("host", "")),
        pid=pid if isinstance(pid, int) else None,
        state=state,
        started_at=one.started_at,
        heartbeat_at=one.heartbeat_at,
        lease=one.lease,
        phases=[_phase(name, member.phase(name)) for name in one.info.get("phases", ())],
        version=str(one.info["version"]) if "version" in one.info else None,
        counters={
            name: count
            for name, count in mapping(member.facts.get("counters")).items()
            if isinstance(count, int)
        },
        running=[item for item in running if isinstance(item, Mapping)] if isinstance(running, list) else [],
        read_at=member.board_at,
        degraded=_degraded(member.facts.get("degraded")),
    )


def _degraded(listed: object) -> Sequence[DegradedPart]:
    return [
        DegradedPart(**{name: str(one.get(name, "")) for name in ("part", "state", "seen", "advice")})
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, Mapping)
    ]


def _phase(name: str, facts: Mapping[str, Any]) -> PhaseView:
    numbers = {
        key: value if isinstance(value := facts.get(key), int) else 0
        for key in ("size", "busy", "error", "queue")
    }
    held = mapping(facts.get("held")).get("next")
    return PhaseView(name=name, **numbers, held_by=held if isinstance(held, str) else None)
