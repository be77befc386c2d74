"""The doctor as a part of the control service."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.doctor.doctor import THRESHOLDS, examine
from windlass.control.doctor.findings import Diagnosis
from windlass.control.doctor.tables import Thresholds
from windlass.control.noun import Noun, off_loop
from windlass.errors import StoreError
from windlass.model.inspection import TableSize
from windlass.setting_values import Item
from windlass.store.inspection import table_sizes


class DoctorControl(Noun):
    """Checks settings, database and instances."""

    def examine(self, *, limits: Thresholds = THRESHOLDS) -> Diagnosis:
        """All findings, each with a code, a sentence and a cure; a database that cannot be reached is a finding, and no error."""
        self._actor.require_all("examine the system")
        try:
            store = self._store
        except StoreError:
            store = None
        url = self._source.url if store is None else str(store.options.get("url", self._source.url))
        return examine(url, self._source.config, store=store, limits=limits)

    def settings(self) -> Sequence[Item]:
        """All settings of the application, each with its origin; ``shown`` of each is without secrets."""
        self._actor.require_all("read the settings")
        return list(self._source.config)

    def tables(self) -> Sequence[TableSize]:
        """The sizes of the tables of Windlass, the largest first."""
        self._actor.require_all("read the sizes of tables")
        return table_sizes(str(self._store.options.get("url", self._source.url)))

    examine_async = off_loop(examine)
    settings_async = off_loop(settings)
    tables_async = off_loop(tables)
