"""CSV of the example ``timesheets``: no text of a person begins a formula, in whatever way a spreadsheet program splits the line."""

from __future__ import annotations

import csv
import itertools
import unicodedata

import pytest

from windlass_examples.timesheets.cells import cell, lines

FORMULAS = (
    "=1+1", "=cmd|' /C calc'!A0", "=HYPERLINK(\"http://x\",\"y\")", "=IMPORTXML(\"http://x\",\"//a\")", "=WEBSERVICE(\"http://x\")",
    "+1+1", "-2+3", "@SUM(1,1)", "=DDE(\"cmd\";\"/C calc\";\"x\")", "|calc",
)  # fmt: skip
BEFORE = ("", " ", "\t", "\r", "\n", "\u00a0", "\u200b", "\ufeff", '"', "'", "\x00", "\u2028")
WIDE = str.maketrans("=+-@", "＝＋－＠")
PAYLOADS = [
    *(before + formula for before, formula in itertools.product(BEFORE[:9], FORMULAS)),
    *(formula.translate(WIDE) for formula in FORMULAS[:9]),
    *(before + "=1+1" for before in BEFORE[9:]),
    "x\n=1+1", "x\r\n+1", "x\t=1+1", '";=1+1;"', '",=1+1,"', "x\u2028=1+1", "%0A=1+1", "\u202e=1+1", "﹦1+1", "﹢1", "﹣1", "﹫SUM(1)",
]  # fmt: skip


def is_formula(text: str) -> bool:
    """Whether a program could read a cell as a formula: it skips blanks, and does not mind wide characters."""
    shown = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Cc", "Zs", "Zl", "Zp"))
    return unicodedata.normalize("NFKC", shown)[:1] in tuple("=+-@|%")


def test_there_are_a_hundred() -> None:
    assert len(set(PAYLOADS)) >= 100
    assert sum(map(is_formula, PAYLOADS)) >= 90, "else the tests below show nothing"


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_cell_begins_a_formula(payload: str) -> None:
    text = lines([["Mari Tamm", payload, 7.5], [payload, "Roads", -1]]).decode()
    rows = list(csv.reader(text.splitlines()))
    assert [len(row) for row in rows] == [3, 3], "one cell stays one cell, and one row one row"
    texts = [rows[0][0], rows[0][1], rows[1][0], rows[1][1]]
    assert not any(map(is_formula, texts))
    assert rows[0][2] == "7.5" and rows[1][2] == "-1", "numbers of the program stay numbers"
    for delimiter in ";\t":  # a program of another language splits elsewhere
        for row in csv.reader(text.splitlines(), delimiter=delimiter):
            assert not any(map(is_formula, row))


def test_texts_stay_as_they_are() -> None:
    for text in ("Mari Tamm", 'said "fine"', "a=b", "1-2", "Võru", "", "5 % off"):
        assert cell(text) == text
    assert (cell(None), cell(3), cell(2.5), cell(True)) == ("", 3, 2.5, "True")
