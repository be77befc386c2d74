"""Pipelines: the kinds of the application with their phases, as its code defines them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.noun import Noun, off_loop
from windlass.control.system_views import PhaseDefinition as PhaseDefinition
from windlass.control.system_views import PipelineView as PipelineView
from windlass.handlers.registry import Kind, Phase


class PipelineControl(Noun):
    """Lists the kinds and pipelines that this application defines. They are code, and no data of any person."""

    def list(self) -> Sequence[PipelineView]:
        """All kinds by name; a plain job is a pipeline of one phase."""
        return [_view(kind) for kind in sorted(self._source.registry, key=lambda kind: kind.name)]

    def get(self, name: str) -> PipelineView | None:
        """One kind; None if none of this name is defined here."""
        kind = self._source.registry.kind(name)
        return None if kind is None else _view(kind)

    list_async = off_loop(list)
    get_async = off_loop(get)


def _view(kind: Kind) -> PipelineView:
    signature = kind.first.signature
    return PipelineView(
        name=kind.name,
        phases=[_phase(phase) for phase in kind.phases],
        parameters=list(signature.parameters),
        required=list(signature.required),
    )


def _phase(phase: Phase) -> PhaseDefinition:
    return PhaseDefinition(
        name=phase.name,
        label=phase.label,
        processors=phase.processors,
        attempts=phase.retry.attempts,
        timeout=phase.timeout,
        total_timeout=phase.total_timeout,
        max_waiting=phase.max_waiting,
        executor=str(phase.where),
    )
