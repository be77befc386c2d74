"""Finds the phases of jobs in a child process, by importing their handlers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.arguments.importable import AUTHORITY, PHASE, USE_DATABASE, WRAP, Address, find
from windlass.engine.processes.child.around import middleware_of
from windlass.engine.processes.wire import Message
from windlass.handlers.context import Context
from windlass.handlers.middleware import Middleware
from windlass.handlers.registry import Kind, Phase, Registry
from windlass.model.retry import fixed
from windlass.observe import application_logs
from windlass.principals.authority import Authority


class ChildPhases:
    """The phases that this process has run so far.

    ``main`` describes the main module of the instance, ``options`` are those of its store. ``log_level`` is the level to log with where
    the application's module configures nothing; None configures nothing.
    """

    def __init__(
        self, main: Mapping[str, Any] | None, options: Mapping[str, Any], log_level: int | None
    ) -> None:
        self._main, self._options, self._log_level = main, options, log_level
        self._known: dict[str, tuple[Phase, Authority, Sequence[Middleware]]] = {}

    def find(self, facts: Message) -> tuple[Phase, Authority, Sequence[Middleware]]:
        """The phase of a job, as the instance has it: this process may have loaded only a part of a pipeline."""
        known = self._known.get(facts["name"])
        if known is None:
            found = find(Address(facts["module"], facts["qualname"]), self._main)
            self._log_like_parent()
            made = getattr(found, PHASE, None)
            if not isinstance(made, Phase):
                made = Registry().define(
                    facts["kind"], found, injected=lambda annotation: annotation is Context
                )
            use_database = getattr(found, USE_DATABASE, None)
            if use_database is not None and "url" in self._options:
                use_database(self._options)
            wrap, handler = getattr(found, WRAP, None), made.handler
            if wrap is not None and made.supplied:
                handler = wrap(handler, made.supplied)
            owner = Kind(facts["kind"])
            phase = Phase(
                name=facts["name"],
                label=facts["label"],
                kind=facts["kind"],
                handler=handler,
                signature=made.signature,
                retry=made.retry,
                where=made.where,
                own_timeout=facts["timeout"],
                chunk_retry=made.chunk_retry,
                principal_expiry=made.principal_expiry,
                owner=owner,
            )
            owner.phases.append(phase)
            if facts["following"] is not None:
                name, attempts = facts["following"]
                owner.phases.append(
                    Phase(
                        name=name,
                        label=name,
                        kind=facts["kind"],
                        handler=made.handler,
                        signature=made.signature,
                        retry=fixed(attempts),
                        where=made.where,
                        owner=owner,
                    )
                )
            middleware = middleware_of(made.registry, facts["middleware"])
            known = phase, getattr(found, AUTHORITY, None) or Authority(), middleware
            self._known[facts["name"]] = known
        return known

    def _log_like_parent(self) -> None:
        """After the application's module was imported: log to standard error if the parent logs, and the module configured nothing."""
        application_logs.enable_loggers()
        if self._log_level is not None:
            logging.basicConfig(
                level=self._log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s"
            )
