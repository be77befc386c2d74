"""Each SQL file names the tables of its own folder: the core no table of a feature, a feature no table of another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "windlass"
TABLES = {
    "keys": {"job_key"},
    "dependencies": {"job_dep", "settling"},
    "rules": {"rule", "rule_kind", "fan_in", "rule_hit"},
    "principals": {"principal"},
    "headers": {"job_headers"},
    "limits": {"flow", "gate", "job_limit"},
    "schedules": {"schedule", "tick"},
    "audit": {"audit"},
    "job_logs": {"job_log"},
    "boards": {"board", "watch"},
    "operations": {"operation", "instance_request"},
    "idempotency": {"request_key"},
    "tokens": {"api_token"},
    "expiry": {"expiry"},
}
OF_FEATURES = set().union(*TABLES.values())


@pytest.mark.parametrize("dialect", ["both", "postgres", "sqlite"])
def test_sql_names_only_tables_of_its_own_folder(dialect: str) -> None:
    files = {path: set[str]() for path in (PACKAGE / "store" / "sql" / dialect).glob("*.sql")}
    of_features = {PACKAGE / feature / f"{dialect}.sql": tables for feature, tables in TABLES.items()}
    files |= {path: tables for path, tables in of_features.items() if path.exists()}
    assert len(files) > 6
    for path, own in files.items():
        text = re.sub(r"--[^\n]*", "", path.read_text("utf-8"))
        named = {name for name in re.findall(r"windlass[._](\w+)", text) if name in OF_FEATURES}
        assert named <= own, f"{path.relative_to(PACKAGE)} names {sorted(named - own)}"
        assert not own or named, f"{path} is not read rightly"


def test_python_of_the_store_names_no_table_of_a_feature() -> None:
    for path in (PACKAGE / "store").rglob("*.py"):
        named = {
            name for name in re.findall(r"windlass[._](\w+)", path.read_text("utf-8")) if name in OF_FEATURES
        }
        assert not named, f"{path.relative_to(PACKAGE)} names {sorted(named)}"
