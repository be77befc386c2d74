"""Values that exist in the fuzzed database, put into the document as further choices: of random ids alone every request would be refused.

Operations that change or remove something have values of their own, so that they leave what the others read.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from windlass import App
from windlass.model import NewSchedule
from windlass.model.rule import Rule

MANY = 10
"""How many values an operation has that uses them up."""
NEVER: Mapping[str, str] = {
    "get_job_stack": "it needs a handler that runs for as long as the fuzzer; tests/control/test_stack.py has one",
}
"""Operations that need not accept a request, and why."""
Choices = dict[str, Sequence[Any]]


def seeded(document: Mapping[str, Any], app: App, token: str) -> dict[str, Any]:
    """The document with values of an app among the choices of parameters and bodies."""
    made = copy.deepcopy(dict(document))
    everywhere, own, bodies = _everywhere(app), _own(app), _bodies(token)
    for path, operations in made["paths"].items():
        for operation in operations.values():
            name = operation["operationId"]
            choices = {**everywhere, **_names(path), **own.get(name, {})}
            for parameter in operation.get("parameters", ()):
                if (found := choices.get(parameter["name"])) is not None:
                    parameter["schema"] = _either(found, parameter["schema"])
                    parameter["example"] = found[0]
            if name in bodies:
                content = operation["requestBody"]["content"]["application/json"]
                content["schema"] = _either(bodies[name], content["schema"])
                content["example"] = bodies[name][0]
    return made


def _either(values: Sequence[Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{"enum": list(values)}, dict(schema)]}


def _everywhere(app: App) -> Choices:
    """Values of parameters by their names."""
    jobs = [job.id for job in app.jobs.list(limit=100).jobs]
    (instance,) = [one.id for one in app.instances.list() if one.is_alive]
    request = app.instances.set_processors(instance, "welcome", 3)
    return {
        "job_id": jobs,
        "operation_id": [one.id for one in app.operations.list().operations],
        "instance": [instance],
        "request_id": [request.id],
        "phase": ["welcome", "sites:fetch"],
        "code": ["not-found", "store-busy"],
        "key": ['"anna"'],
    }


def _names(path: str) -> Choices:
    """Values of the parameter ``name``, which means what the path says."""
    known = {"/v1/schedules": "nightly", "/v1/rules": "both", "/v1/pipelines": "sites"}
    return next(({"name": [name]} for start, name in known.items() if path.startswith(start)), {})


def _own(app: App) -> Mapping[str, Choices]:
    """Values of single operations."""
    later = app.kind("welcome").options(delay=3600)
    ended = [later.enqueue(user="ended").id for _ in range(2 * MANY)]
    for job in ended:
        app.jobs.cancel(job, "seed")
    (sites, *_) = app.jobs.list("kind:sites state:completed").jobs or app.jobs.list("kind:sites").jobs
    edited = app.jobs.get(later.enqueue(user="edited").id)
    batch = app.batch([app.kind("welcome").request(user="member")], then=app.kind("welcome").request())
    doomed = [f"doomed-{number}" for number in range(MANY)]
    for name in doomed:
        app.store.schedules.put(NewSchedule(name=name, kind="welcome", expression="0 2 * * *"))
        app.store.rules.put(
            Rule(
                name=name,
                parents=("welcome", "broken"),
                create="summary",
                phase="summary",
                key=("args.number",),
            )
        )
    completed = [job.id for job in app.jobs.list("kind:welcome state:completed").jobs]
    return {
        "get_batch": {"job_id": [batch.then.id]},
        "get_job_result": {"job_id": completed},
        "get_phase_output": {"job_id": [sites.id], "phase": ["sites:fetch"]},
        "get_job_output": {"job_id": [sites.id], "phase": ["sites:fetch"], "name": ["headers"]},
        "delete_job": {"job_id": ended[:MANY], "reason": ["no longer needed"]},
        "retry_job": {"job_id": ended[MANY:]},
        "run_job_now": {"job_id": [later.enqueue(user="now").id for _ in range(MANY)]},
        "cancel_job": {"job_id": [later.enqueue(user="doomed").id for _ in range(MANY)]},
        "edit_job": {"job_id": [edited.id], "if-match": [f'"{edited.version}"']},
        "delete_schedule": {"name": doomed},
        "delete_rule": {"name": doomed},
    }


def _bodies(token: str) -> Mapping[str, Sequence[Any]]:
    """Bodies that are accepted, for operations whose random bodies hardly ever are."""
    job = {"kind": "welcome", "arguments": {"user": "anna"}}
    return {
        "submit_job": [job],
        "submit_jobs": [[job, job]],
        "submit_batch": [{"jobs": [job], "then": job}],
        "edit_job": [{"priority": 9, "reason": "urgent"}],
        "set_processors": [{"count": 4}],
        "start_operation": [{"act": "cancel", "filter": "kind:summary", "dry_run": True}],
        "create_session": [{"token": token}],
    }
