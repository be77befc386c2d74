"""Jobs that have ended, and the children that rules have not made of them yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from windlass.control.why.codes import Why, WhyCode
from windlass.control.why.facts import Facts
from windlass.control.why.texts import clock, said
from windlass.errors import RuleNotFoundError
from windlass.features import Store
from windlass.model import State
from windlass.model.rule import Rule, key_text, key_value
from windlass.observe.safe_text import escaped


def ended_reasons(facts: Facts) -> Iterator[Why]:
    """How a job ended, and which rules still wait for jobs of other kinds."""
    job = facts.job
    details: dict[str, Any] = {
        "state": job.reason,
        "finished_at": job.at.isoformat(),
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
    }
    sentence = (
        f"{'was cancelled' if job.reason == State.CANCELLED else job.reason} at {clock(job.at, job.now)}"
    )
    if job.reason != State.COMPLETED:
        error, details["error"] = error_text(facts)
        if job.reason == State.FAILED:
            sentence += f" in attempt {job.attempt} of {job.max_attempts}"
        sentence += f"{error}; it runs again if it is retried"
    yield Why(WhyCode.ENDED, sentence, details)
    yield from _childless(facts)


def _childless(facts: Facts) -> Iterator[Why]:
    """The children that rules have not made of an ended job."""
    job, moment = facts.job, facts.store.db.moment
    for rule, kind, state, error, at, counts, round_, fan_in, now_round, key, opened in facts.store.db.read(
        "hit.childless", id=job.id
    ):
        if error is not None:
            yield _not_made(facts, rule, error)
        elif fan_in is not None:
            if counts and opened is not None and round_ == now_round:
                yield lacking(
                    facts.store,
                    rule,
                    key,
                    fan_in,
                    round_,
                    moment(opened),
                    job.now,
                    is_all=facts.scope.is_all,
                    shown=facts.payload.words,
                )
        elif state != State.COMPLETED and round_ is None:
            yield Why(
                WhyCode.FAN_IN,
                f"the rule {rule} makes its child when this {kind} completes: it waits for a retry",
                {"rule": rule, "missing": [kind], "since": moment(at).isoformat()},
            )


def error_text(facts: Facts) -> tuple[str, dict[str, Any] | None]:
    """The error of the last attempt: as a part of a sentence (" after ValueError: bad row"), and as details."""
    error = facts.job.error
    if not error:
        return "", None
    message = error.get("message") or ""
    parent = (error.get("details") or {}).get("parent") if isinstance(error.get("details"), dict) else None
    if parent is not None and not facts.sees(parent):
        message = "a job that this job waited for did not complete"
    found = facts.payload.error_words(
        {"type": error.get("type"), "code": error.get("code"), "message": message}
    )
    shown = {name: None if value is None else said(value) for name, value in found.items()}
    name, words = shown["type"], shown["message"]
    is_named = bool(name) and str(words or "").startswith(f"{name}:")
    text = ": ".join(part for part in (None if is_named else name, words) if part)
    return (f" after {text}" if text else ""), shown


def _not_made(facts: Facts, rule: str, error: str) -> Why:
    """The parents are complete, and the child could not be made of them. The reason may quote another job's arguments."""
    details = {"rule": rule, "missing": []}
    if not facts.scope.is_all:
        return Why(WhyCode.FAN_IN, f"the rule {rule} could not make its child", details)
    problem = said(facts.payload.words(error))
    return Why(
        WhyCode.FAN_IN, f"the rule {rule} could not make its child: {problem}", {**details, "error": problem}
    )


def _as_it_is(value: Any) -> Any:
    return value


def lacking(
    store: Store,
    rule: str,
    key: str,
    fan_in: int,
    round_: int,
    opened: datetime,
    now: datetime,
    *,
    is_all: bool,
    shown: Callable[[Any], Any] = _as_it_is,
) -> Why:
    """What an open fan-in lacks. Ids of the jobs that have arrived are for actors who see all jobs."""
    arrived = store.db.read("fan_in.arrived", fan_in=fan_in, round=round_)
    parents = _parents(store, rule)
    bad = [kind for kind, state, *_ in arrived if state != State.COMPLETED]
    good = {kind for kind, state, *_ in arrived if state == State.COMPLETED}
    missing = [kind for kind in parents if kind not in good]
    details: dict[str, Any] = {
        "rule": rule,
        "key": shown(_shown_key(key)),
        "missing": missing,
        "failed": bad,
        "since": opened.isoformat(),
    }
    if is_all:
        details["arrived"] = [{"kind": kind, "id": str(parent)} for kind, _, parent, _ in arrived]
    sentence = (
        f"the rule {rule} makes its child for {json.dumps(details['key'], ensure_ascii=False)} when all kinds have completed: "
        f"it lacks {', '.join(missing)} since {clock(opened, now)}"
    )
    if bad:
        sentence += f"; {', '.join(bad)} did not complete and has to be retried"
    return Why(WhyCode.FAN_IN, escaped(sentence), details)


def child_of(store: Store, rule: Rule, key: Any) -> Why:
    """Why a rule has not made its child for a key."""
    values = key if isinstance(key, list | tuple) else [key]
    text = key_text(values)
    for fan_in, round_, opened in store.db.read("fan_in.of_key", rule=rule.name, key=text):
        if opened is not None:
            since = store.db.moment(opened)
            return lacking(store, rule.name, text, fan_in, round_, since, store.now(), is_all=True)
    missing = ", ".join(rule.parents)
    return Why(
        WhyCode.UNKNOWN,
        escaped(
            f"the rule {rule.name} has no open fan-in for {text}: no job of {missing} has ended for it since its last child"
        ),
        {"rule": rule.name, "key": _shown_key(text), "missing": list(rule.parents)},
    )


def _parents(store: Store, rule: str) -> Sequence[str]:
    try:
        return store.rules.get(rule).rule.parents
    except RuleNotFoundError:
        return ()


def _shown_key(text: str) -> Any:
    """The value of a key, each of its texts safe to show."""
    value = key_value(text)
    return (
        [said(item) if isinstance(item, str) else item for item in value]
        if isinstance(value, list)
        else said(value)
    )
