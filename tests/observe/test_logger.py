"""Loggers that whoever logs can trust, whatever an application has put behind them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.observe import logger
from windlass.observe.logger import get_logger

NAME = "windlass.test_logger"


class Odd(logging.Handler):
    """Raises out of ``handle``, where ``logging`` does not catch it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def handle(self, record: logging.LogRecord) -> bool:
        raise self._error


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    monkeypatch.setattr(logger, "_unwritable", logger.Quiet())
    made = get_logger(NAME)
    made.setLevel(logging.INFO)
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
    for one in list(made.filters):
        made.removeFilter(one)


@pytest.mark.parametrize("error", [OSError("the disk is full"), SystemExit(3), RecursionError()])
def test_what_a_handler_raises_stays_with_it(
    log: logging.Logger, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    log.addHandler(Odd(error))
    for _ in range(3):
        log.warning("hello")
    try:
        raise ValueError("mine")
    except ValueError:
        log.exception("what happened")
    told = capsys.readouterr().err
    assert told.count(f"a record of {NAME} could not be logged") == 1 and type(error).__name__ in told


def test_what_a_filter_raises_and_records_that_cannot_be_made_stay_here_too(log: logging.Logger) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise LookupError("no tenant")

    log.addFilter(refuse)
    log.warning("hello")
    log.warning("hello", extra={"message": "taken"})  # noqa: G101


def test_ctrl_c_is_a_persons(log: logging.Logger) -> None:
    log.addHandler(Odd(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        log.warning("hello")
    escaped: list[BaseException] = []

    def elsewhere() -> None:
        try:
            log.warning("hello")
        except BaseException as error:  # noqa: BLE001
            escaped.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not escaped


def test_a_record_still_says_where_it_was_written(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    log.warning("hello")
    logging.getLogger(NAME).error("there is one of each name")
    records = [record for record in caplog.records if record.name == NAME]
    assert {record.filename for record in records} == {"test_logger.py"} and len(records) == 2
    assert records[0].funcName == "test_a_record_still_says_where_it_was_written"


def test_a_class_of_loggers_of_the_applications_own_is_kept() -> None:
    class Structured(logging.Logger):
        def bind(self, **values: Any) -> str:
            return "bound"

    before = logging.getLoggerClass()
    logging.setLoggerClass(Structured)
    try:
        made = logging.getLogger(f"{NAME}.own")
    finally:
        logging.setLoggerClass(before)
    guarded = get_logger(f"{NAME}.own")
    assert guarded is made and guarded.bind() == "bound"  # type: ignore[attr-defined]
    guarded.addHandler(Odd(OSError("away")))
    guarded.error("hello")


def test_every_logger_of_the_package_is_one_of_these() -> None:
    root = Path(windlass.__file__).parent
    bare = [path.name for path in root.rglob("*.py") if 'logging.getLogger("windlass.' in path.read_text()]
    assert bare == []
