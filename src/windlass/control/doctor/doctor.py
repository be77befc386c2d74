"""Examines settings, database and instances, in the order in which they depend on each other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from windlass.config import Config
from windlass.control.doctor.findings import Diagnosis, Finding
from windlass.control.doctor.instances import check_instances
from windlass.control.doctor.settings import check_redis, check_settings, of_error
from windlass.control.doctor.tables import Thresholds, check_connection, check_schema, check_tables
from windlass.errors import (
    ConfigError,
    SchemaError,
    StoreError,
    StoreNotAllowedError,
    StoreUnreachableError,
)
from windlass.features import Store, open_store
from windlass.model.inspection import Pooler
from windlass.store.inspection import inspect, pooler_of
from windlass.store.migrate import status
from windlass.store.schema.migrations import available
from windlass.urls import dialect_of, shown_url

THRESHOLDS = Thresholds()


def examine(
    url: str,
    config: Config,
    *,
    store: Store | None = None,
    limits: Thresholds = THRESHOLDS,
    environ: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Check everything that is needed to run jobs on the database of ``url``. ``store`` is that database, if it is open already.

    Changes nothing. What depends on something that failed is left out: without the tables of this release no table is inspected.
    """
    findings = [*check_settings(config, os.environ if environ is None else environ), *check_redis(config)]
    try:
        findings += _database(url, config, store, limits)
    except ConfigError as error:
        findings.append(of_error(error))
    except StoreUnreachableError as error:
        findings.append(
            Finding.error(
                "store.unreachable",
                f"The database {shown_url(url)} cannot be reached: {error.message}",
                "Start the server, or correct the URL, the login and the network between this machine and the server.",
            )
        )
        return Diagnosis.of(findings, is_reachable=False)
    except StoreNotAllowedError as error:
        findings.append(
            Finding.error(
                "store.not_allowed",
                error.message,
                "Grant the missing privilege: docs/guides/two-roles.md lists what a role needs.",
            )
        )
    except SchemaError as error:
        findings.append(
            Finding.error("schema.changed", error.message, "Restore the file, or the database from a backup.")
        )
    except StoreError as error:
        findings.append(Finding.error("store.error", error.message, "Follow the sentence, then check again."))
    return Diagnosis.of(findings)


def _database(url: str, config: Config, store: Store | None, limits: Thresholds) -> Iterator[Finding]:
    dialect = dialect_of(url)
    pooler_of(url)  # waits three seconds at most for a server that does not reply
    found = status(url)
    yield from check_schema(found, available(dialect))
    if found.pending:
        return
    facts = inspect(url)
    yield from check_tables(facts, limits)
    if dialect == "postgres":
        direct = config.direct_url
        yield from check_connection(facts, config, None if direct is None else pooler_of(direct), limits)
    if facts.missing:
        return
    options = {**config.store_options(dialect), "auto_migrate": False}
    if facts.pooler is Pooler.TRANSACTION:
        options["pooled"] = True
    with _opened(url, options, store) as opened:
        yield from check_instances(opened)


@contextmanager
def _opened(url: str, options: Mapping[str, Any], store: Store | None) -> Iterator[Store]:
    if store is not None:
        yield store
        return
    with open_store(url, **options) as made:
        yield made
