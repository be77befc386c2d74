"""Finds what guards the store's SQL, and makes a mutant of each guard: the same file with that one guard gone.

Guards of the verbs are the conjuncts of every WHERE, sub-selects included (FILTER is none); inside a conjunct also each
branch of an OR. Beside them stand what decides who gets a row: row locks, ``LIMIT :limit`` and, in claims and promotions,
ORDER BY. In migrations, CHECKs (and each of their conjuncts), the trigger that keeps history, and the two words that make
tokens rise; one that a later migration makes anew is left out, because no database has it any more. JOIN conditions are no guards: without them a statement means something else altogether.

A slot at the end of a WHERE (``{{kept(d)}}``) is a guard, and so is the condition of each text that fills such a slot: a
fragment that begins with AND or OR.

A line that ends with ``-- belt: <reason>`` holds a guard that cannot be observed, by design; ``-- belt on sqlite: <reason>`` is for
one database of a text for both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import windlass.features  # noqa: F401  registers the SQL of the features
from windlass.store.schema import statements
from windlass.store.schema.statements import Verb

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "windlass"
DIALECTS = ("sqlite", "postgres")
MIGRATION = "migration"
"""The verb under which the mutants of migrations are listed."""

ONLY_POSTGRES = ("lock", "skip locked")
"""Guards that a text for both dialects has on PostgreSQL alone."""
LIMITS = (":limit", "w.most")
"""The second one is of a claim: for each phase that it claims from."""
ORDERED = ("step", "claim", "promote", "promote_page")
_BELT = re.compile(r"--\s*belt(?: on (?P<dialect>sqlite|postgres))?:\s*(?P<reason>.+?)\s*$")
_BLOCK = re.compile(r"^-- (?:name|fragment|slot|column): ([\w.]+)", re.MULTILINE)
# A fragment that says whether something holds is a condition, as behind WHERE.
_CONDITION = re.compile(
    r"^-- fragment: [^\n]*\n-- Whether [^\n]*\n(?P<text>.*?)(?=^-- (?:name|fragment|slot|column): |\Z)",
    re.MULTILINE | re.DOTALL,
)
# A text of a slot: a condition with the word that joins it to those before.
_JOINED = re.compile(
    r"^-- fragment: [^\n]*\n(?:--[^\n]*\n)*(?P<text>(?P<word>AND|OR)\b.*?)(?=^-- (?:name|fragment|slot|column): |\Z)",
    re.MULTILINE | re.DOTALL,
)
_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$\$.*?\$\$|:?[A-Za-z_][\w.]*|\d+|\s+|.", re.DOTALL)
_AFTER_WHERE = {
    "GROUP",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FOR",
    "RETURNING",
    "UNION",
    "HAVING",
    "WINDOW",
    "ON",
    "DO",
    ";",
}
_OPERAND = re.compile(r"(?!(?:AND|OR|NOT|IN|IS|THEN|ELSE|WHEN)$):?[\w.]+", re.IGNORECASE)
_LOCK = {"NO", "KEY", "SHARE", "UPDATE", "OF", "SKIP", "LOCKED"}
_AFTER_ORDER = _AFTER_WHERE - {"ORDER"} | {"ROWS", "RANGE"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One file with one guard gone: ``text`` of the source between two places is replaced by ``put``."""

    dialect: str
    file: str
    verb: str
    line: int
    start: int
    end: int
    text: str
    put: str
    kind: str
    belt: str | None = None

    @property
    def id(self) -> str:
        """A name that survives edits elsewhere in the file."""
        digest = hashlib.sha256(f"{self.start}".encode()).hexdigest()[:4]
        return f"{self.dialect}/{self.verb}:{self.line}:{digest}:{self.kind}"

    @property
    def key(self) -> str:
        """What a remembered killer is filed under: the guard's words, not its place."""
        return f"{self.dialect}/{self.verb}/{self.kind}/{' '.join(self.text.split())}/{self.put}"

    def describe(self) -> str:
        text = " ".join(self.text.split())
        shown = text if len(text) <= 90 else f"{text[:87]}..."
        return f"{self.file}:{self.line} {self.verb}: {shown}  →  {self.put or 'nothing'}"

    def applied(self) -> str:
        """The whole text of the file, mutated."""
        source = (PACKAGE / self.file).read_text("utf-8")
        if source[self.start : self.end] != self.text:
            raise ValueError(f"{self.file} changed while its mutants were tried")
        return source[: self.start] + self.put + source[self.end :]

    def sources(self) -> dict[str, str]:
        """All files of the dialect, this one mutated."""
        name = f"windlass.{self.file}".replace(".sql", ".SQL")
        folder, _, rest = name.partition("/sql/")
        key = f"{folder.replace('/', '.')}:sql/{rest}" if rest else name.replace("/", ":")
        key = key.replace(".SQL", ".sql")
        sources = statements.sources(self.dialect)
        assert key in sources, key
        text = self.applied()
        return sources | {
            key: statements.spelled(text, self.dialect) if statements.is_for_both(key) else text
        }

    def changed(self) -> dict[str, Verb]:
        """The verbs that are not what they were: the one that the guard stands in, or all that use the fragment it stands in."""
        before = statements.load(self.dialect)
        now = statements.compose([*self.sources().values()])
        return {verb: text for verb, text in now.items() if text != before[verb]}

    @property
    def is_fragment(self) -> bool:
        """Whether it stands in a text that several verbs may use."""
        return self.verb != MIGRATION and self.verb not in statements.load(self.dialect)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    depth: int
    """Brackets and CASE … END around it."""

    @property
    def word(self) -> str:
        return self.text.upper()

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class _Found:
    """A place to change, before it is known to which verb it belongs."""

    start: int
    end: int
    put: str
    kind: str


def find(dialect: str) -> list[Mutant]:
    """Every mutant of a dialect, in the order of its files."""
    mutants: list[Mutant] = []
    core = PACKAGE / "store" / "sql"
    for path in (
        *sorted(core.glob("both/*.sql")),
        *sorted(core.glob(f"{dialect}/*.sql")),
        *sorted(PACKAGE.glob("*/both.sql")),
        *sorted(PACKAGE.glob(f"*/{dialect}.sql")),
        *sorted(core.glob(f"{dialect}/migrations/*.sql")),
    ):
        later = "".join(
            other.read_text("utf-8") for other in sorted(path.parent.glob("*.sql")) if other.name > path.name
        )
        found = find_in(path.read_text("utf-8"), dialect, path.relative_to(PACKAGE).as_posix(), later)
        mutants += [mutant for mutant in found if mutant.kind not in ONLY_POSTGRES or dialect == "postgres"]
    return mutants


def find_in(source: str, dialect: str, file: str, later: str = "") -> list[Mutant]:
    """Every mutant of one file's text; ``later`` is the text of the migrations after it."""
    tokens = _tokens(source)
    is_migration = "/migrations/" in file
    found = _in_migration(source, tokens, later) if is_migration else _in_verbs(source, tokens)
    names = [(match.end(), match[1]) for match in _BLOCK.finditer(source)]
    lines = source.splitlines()
    mutants = []
    for item in sorted(set(found), key=lambda item: (item.start, item.end, item.kind)):
        verb = next((name for at, name in reversed(names) if at <= item.start), MIGRATION)
        first, last = source.count("\n", 0, item.start), source.count("\n", 0, item.end)
        belts = [belt for line in (first, last) if (belt := _BELT.search(lines[line]))]
        reason = next((belt["reason"] for belt in belts if belt["dialect"] in (None, dialect)), None)
        mutants.append(
            Mutant(
                dialect,
                file,
                verb,
                first + 1,
                item.start,
                item.end,
                source[item.start : item.end],
                item.put,
                item.kind,
                reason,
            )
        )
    return mutants


def _tokens(source: str) -> list[_Token]:
    """Words and signs with their depth; comments and space left out. A block ends with a semicolon."""
    tokens: list[_Token] = []
    depth = 0
    for match in _TOKEN.finditer(source):
        text = match[0]
        if _BLOCK.match(text):  # ends the clause before it: a fragment has no semicolon
            tokens.append(_Token(";", match.start(), 0))
        if text.isspace() or text.startswith("--"):
            continue
        word = text.upper()
        if word in (")", "END"):
            depth -= word == ")" or (depth > 0 and _is_case(tokens, depth))
        tokens.append(_Token(text, match.start(), depth))
        if word in ("(", "CASE"):
            depth += 1
    return tokens


def _is_case(tokens: Sequence[_Token], depth: int) -> bool:
    """Whether the level about to end was opened by CASE (an END may also close a trigger's body)."""
    opener = next((token for token in reversed(tokens) if token.depth == depth - 1), None)
    while opener is not None and opener.word not in ("(", "CASE"):
        at = tokens.index(opener)
        opener = next((token for token in reversed(tokens[:at]) if token.depth == depth - 1), None)
    return opener is not None and opener.word == "CASE"


# --- verbs -----------------------------------------------------------------------------------------------------------


def _in_verbs(source: str, tokens: Sequence[_Token]) -> Iterator[_Found]:
    for block in _CONDITION.finditer(source):
        condition = [token for token in tokens if block.start("text") <= token.start < block.end("text")]
        yield from _conjuncts(condition, "guard")
    for block in _JOINED.finditer(source):
        _, *condition = [token for token in tokens if block.start("text") <= token.start < block.end("text")]
        if block["word"] == "AND":
            yield from _conjuncts(condition, "guard")
        else:
            yield from _gone(condition, "FALSE", "guard branch")
    names = [(match.end(), match[1]) for match in _BLOCK.finditer(source)]
    for at, token in enumerate(tokens):
        verb = next((name for place, name in reversed(names) if place <= token.start), "")
        if token.word == "WHERE" and not _is_filter(tokens, at):
            clause, slot = _without_slot(_until(tokens, at + 1, _AFTER_WHERE))
            yield from _conjuncts(clause, "guard")
            yield from _gone(slot, "", "guard") if slot else ()
        elif token.word == "FOR" and tokens[at + 1].word in ("NO", "UPDATE", "KEY", "SHARE"):
            yield from _lock(tokens, at)
        elif token.word == "LIMIT" and tokens[at + 1].text in LIMITS:
            yield _Found(token.start, tokens[at + 1].end, "", "limit")
        elif token.word == "ORDER" and verb.split(".")[0] in ORDERED:
            clause = _until(tokens, at, _AFTER_ORDER)
            yield _Found(clause[0].start, clause[-1].end, "", "order")


def _is_filter(tokens: Sequence[_Token], at: int) -> bool:
    return at >= 2 and tokens[at - 1].text == "(" and tokens[at - 2].word == "FILTER"


def _until(tokens: Sequence[_Token], begin: int, ends: set[str]) -> Sequence[_Token]:
    """The tokens of a clause: up to a word that begins another one at the same depth, or the bracket around it."""
    depth = tokens[begin].depth
    for at in range(begin, len(tokens)):
        token = tokens[at]
        if token.depth < depth or (token.depth == depth and token.word in ends):
            return tokens[begin:at]
    return tokens[begin:]


def _without_slot(tokens: Sequence[_Token]) -> tuple[Sequence[_Token], Sequence[_Token]]:
    """A clause without the slot at its end, and that slot: a fragment behind a whole condition, so that its text begins with AND."""
    for at in range(1, len(tokens) - 1):
        is_opened = tokens[at].text == tokens[at + 1].text == "{" and tokens[at].depth == tokens[0].depth
        if is_opened and (tokens[at - 1].text in ")}" or _OPERAND.fullmatch(tokens[at - 1].text)):
            closed = next(
                end for end in range(at, len(tokens)) if tokens[end].text == tokens[end + 1].text == "}"
            )
            if closed + 2 == len(tokens):
                return tokens[:at], tokens[at:]
    return tokens, ()


def _conjuncts(tokens: Sequence[_Token], kind: str) -> Iterator[_Found]:
    """Each conjunct gone (TRUE), and inside an OR each branch gone (FALSE), however deep they are nested."""
    yield from _gone(tokens, "TRUE", kind) if len(_split(tokens, "AND")) < 2 else ()
    yield from _inside(tokens, kind)


def _inside(tokens: Sequence[_Token], kind: str) -> Iterator[_Found]:
    branches = _split(tokens, "OR")
    if len(branches) > 1:
        for branch in branches:
            yield from _gone(branch, "FALSE", f"{kind} branch")
            yield from _inside(branch, kind)
        return
    parts = _split(tokens, "AND")
    if len(parts) > 1:
        for part in parts:
            yield from _gone(part, "TRUE", kind)
            yield from _inside(part, kind)
        return
    bare = tokens[1:] if tokens[0].word == "NOT" else tokens
    if bare[0].text == "(" and bare[-1].text == ")" and bare[-1].depth == bare[0].depth:
        within = bare[1:-1]
        if all(token.depth > bare[0].depth for token in within) and within[0].word != "SELECT":
            yield from _inside(within, kind)


def _split(tokens: Sequence[_Token], word: str) -> list[Sequence[_Token]]:
    """The parts between words of the lowest depth; OR binds weaker than AND; BETWEEN has an AND of its own. A text for a slot begins with AND."""
    depth = min(token.depth for token in tokens)
    parts: list[Sequence[_Token]] = []
    begin, is_between = 0, False
    if word == "AND" and len(_split(tokens, "OR")) > 1:
        return [tokens]
    for at, token in enumerate(tokens):
        if token.depth != depth:
            continue
        if token.word == "BETWEEN":
            is_between = True
        elif token.word == word:
            if is_between and word == "AND":
                is_between = False
                continue
            parts.append(tokens[begin:at])
            begin = at + 1
    return [part for part in (*parts, tokens[begin:]) if part]


def _gone(tokens: Sequence[_Token], put: str, kind: str) -> Iterator[_Found]:
    yield _Found(tokens[0].start, tokens[-1].end, put, kind)


def _lock(tokens: Sequence[_Token], at: int) -> Iterator[_Found]:
    """The row lock gone; and, where it leaves out locked rows, waiting for them instead."""
    end = at + 1
    while tokens[end].word in _LOCK or tokens[end - 1].word == "OF":
        end += 1
    clause = tokens[at:end]
    yield _Found(clause[0].start, clause[-1].end, "", "lock")
    if clause[-1].word == "LOCKED":
        yield _Found(clause[-2].start, clause[-1].end, "", "skip locked")


# --- migrations ------------------------------------------------------------------------------------------------------


def _in_migration(source: str, tokens: Sequence[_Token], later: str) -> Iterator[_Found]:
    for match in re.finditer(r"\bCACHE 1\b(?=;)", source):
        yield _Found(match.start(), match.end(), "CACHE 32", "token order")  # one is the default
    for match in re.finditer(r"\bAUTOINCREMENT\b(?=,)", source):
        yield _Found(match.start(), match.end(), "", "token order")
    for match in re.finditer(
        r"^CREATE TRIGGER (\w+) .*?(?:^END;|FUNCTION [\w.]+\(\);)", source, re.MULTILINE | re.DOTALL
    ):
        if f"CREATE TRIGGER {match[1]} " not in later:
            yield _Found(match.start(), match.end(), "", "trigger")
    for at, token in enumerate(tokens):
        is_check = token.word == "CHECK" and tokens[at + 1].text == "("
        if is_check and f"CONSTRAINT {tokens[at - 1].text} CHECK" not in later:
            found = _conjuncts(_until(tokens, at + 2, set()), "check")
            yield from (item for item in found if item.put == "TRUE")  # without a branch it would be stricter
