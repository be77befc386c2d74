"""What commands print of texts that somebody else wrote: nothing of it moves the cursor, and no spreadsheet runs it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from windlass.cli.exit_codes import complain
from windlass.cli.output import show

EVIL = "\x1b]0;pwn\x07\x9b31m=1\u202e\nnext"


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "csv"])
def test_no_control_character_reaches_the_terminal(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    show([{"text": EVIL, "more": {"key": EVIL}}], ("text", "more"), output)
    printed = capsys.readouterr().out
    assert not [
        char
        for char in printed
        if (ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 or char == "\u202e"
    ]
    if output in ("json", "jsonl"):
        read = json.loads(printed)
        row = read[0] if output == "json" else read
        assert row == {"text": EVIL, "more": {"key": EVIL}}, "a reader of JSON gets the original"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"])
def test_a_cell_is_no_formula(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show([{"text": text, "number": -5}], ("text", "number"), "csv")
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["text"].startswith("'") and row["number"] == "-5"


def test_an_error_that_quotes_a_stored_text_is_one_clean_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"schedule {EVIL} is not there", 3)
    assert capsys.readouterr().err == "error: schedule \\x1b]0;pwn\\x07\\x9b31m=1\\u202e next is not there\n"
