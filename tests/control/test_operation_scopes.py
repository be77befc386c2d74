"""Operations act in the scope of their actor, and are shown only to actors who may see them."""

from __future__ import annotations

import pytest

from tests.conformance.life import every_job, state
from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from tests.control.test_operations import failed
from windlass import App
from windlass.errors import OperationNotFoundError
from windlass.features import Store
from windlass.model import State
from windlass.model.principal import Principal


def test_an_operation_acts_in_the_scope_of_its_actor(app: App, store: Store) -> None:
    owners = {"anna": ANNA, "bert": BERT, "cara": CARA, "nobody": None}
    for who, allowed in ((ANNA, {"anna"}), (OPS, {"anna", "bert"}), (BOSS, set(owners))):
        ids = {name: failed(store, 2, principal=owner) for name, owner in owners.items()}
        handle = app.acting_as(who).jobs.retry_many("kind:welcome state:failed", reason="x")
        assert handle.matched == sum(len(ids[name]) for name in allowed)
        operation = app.operations.wait(handle.id)  # whoever does the pages
        assert (operation.done, operation.refused) == (handle.matched, 0)
        for name, jobs in ids.items():
            expected = State.QUEUED if name in allowed else State.FAILED
            assert {state(store, job_id) for job_id in jobs} == {expected}
        app.operations.start("cancel", "-state:cancelled", "tidy up").wait()
        app.operations.start("delete", "state:failed,cancelled", "tidy up").wait()
        assert not every_job(store)


def test_operations_of_others_do_not_exist(app: App, store: Store) -> None:
    failed(store, 1)
    begun = {
        name: app.acting_as(who).jobs.retry_many("state:failed", reason="x").id
        for name, who in {"anna": ANNA, "bert": BERT, "cara": CARA, "boss": BOSS}.items()
    }
    begun["app"] = app.jobs.retry_many("state:failed", reason="x").id
    sees: list[tuple[Principal, set[str]]] = [
        (ANNA, {"anna"}),
        (CARA, {"cara"}),
        (OPS, {"anna", "bert"}),
        (BOSS, set(begun)),
        (Principal("anna", tenant="acme", issuer="elsewhere"), set()),
        (Principal("anna", tenant="other"), set()),
    ]
    for who, allowed in sees:
        operations = app.acting_as(who).operations
        assert {one.id for one in operations.list().operations} == {begun[name] for name in allowed}
        for name, operation_id in begun.items():
            if name in allowed:
                assert operations.get(operation_id).id == operation_id
                continue
            for call in (operations.get, operations.stop, operations.wait, operations.handle):
                with pytest.raises(OperationNotFoundError):
                    call(operation_id)
    with pytest.raises(OperationNotFoundError):
        app.operations.get("x'; --")
    assert all(not app.operations.get(operation_id).is_over for operation_id in begun.values())
