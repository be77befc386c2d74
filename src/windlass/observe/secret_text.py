"""Finds the values of secrets in a text: behind their names, in URLs, and by their form.

Forms in which a name and its value are recognised:

- ``name=value``, ``name: value``, ``name => value``, ``name -> value``, ``name := value``, with or without spaces;
- names and values in quotes, also in JSON or ``repr`` that is itself quoted, at any depth (``{\\"token\\": \\"…\\"}``);
- pairs, ``("name", "value")`` and ``["name", "value"]``; options of commands, ``--name value``;
- parameters of URLs, ``?name=value&name=value``; headers, ``Authorization: scheme value``.

Where a value ends: in quotes at the closing quote; in brackets at the matching bracket; a header, a connection string and a passphrase at
the end of the line; else at a space, or before a separator or bracket that ends the item. A quote or a bracket that is never closed hides the rest of the text.

Every search advances by at least what it has read, so the time grows with the length of the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from windlass.observe.secret_names import SECONDS, may_have_spaces, names_secret

HIDDEN = "***"

# Names are taken whole and never given back (possessive). The value begins at the end of the match, after one line break at most.
NAMED = re.compile(
    r"""(?<![\w-])(?P<name>(?P<option>--)?+[\w-]++)
    (?: (?P<closed>\\*+["'])?+ \]?+ \s*+ (?P<sign>[!+:~]?={1,3}>?|:(?!//)|->|(?<=-)>)
      | \\*+["']\s*+(?P<comma>,)
      | (?(option)[^\S\n]++(?!-)|(?!))
    ) [^\S\n]*+(?:\n[^\S\n]*+)?+""",
    re.VERBOSE,
)
_OPENING = re.compile(r"""[bBfFrRuU]{0,2}(?P<escape>\\*+)(?P<quote>\"{3}|'{3}|["'])""")
_CLOSING = {quote: re.compile(rf"(?<!\\)\\*+{quote}") for quote in "\"'"}
_MARK = re.compile(r"""(?<!\\)\\*+["']|[()\[\]{}]""")
_LINES = re.compile(r"-[ \t]++[^\n]*+(?:\n[ \t]*+-[ \t][^\n]*+)*+|[|>][+-]?[ \t]*+(?:\n[ \t]++[^\n]*+)++")
_ANGLES = re.compile(r"<[^<>\n]*+>")
_SCHEME = re.compile(
    r"(?:bearer|basic|digest|token|negotiate|ntlm|hawk|oauth|dpop|apikey)[ \t]++", re.IGNORECASE
)
_BARE = re.compile(
    r"""(?: [^\s,;&"'()\[\]{}\\]++
          | \\++(?!["'])
          | [,;&](?![\s)\]}"']|\Z|\\*+["']?[\w.-]++\\*+["']?\s{0,3}[=:])
          | (?:\\*+["']|[)\]}])++(?![\s,;&(\[{\\]|\Z)
        )*+""",
    re.VERBOSE,
)
_ITEM = re.compile(r"""[^\s,"'()\[\]{}\\]++""")
_PAIR_OPENS = re.compile(r"""[(\[]\s?[bBrRuU]{0,2}\\*["']$""")
_PAIR_CLOSES = re.compile(r"\s*+,?\s*+[)\]]|\Z")
_QUOTED_BEFORE = re.compile(r"""(\\*)(["'])$""")
_WORD_BEFORE = re.compile(r"[A-Za-z]+(?= $)")
NEAR = 24
"""Characters before a name that are read: its quote and bracket, or the word before it."""

_URL_WORD = re.compile(r"""(?:[^\s"'\\<>]++|["'](?![\s,;:)\]}>"'\\]|\Z)|\\++(?!["']))*+""")
_USER = re.compile(r"[^\s/?#@:]*+")
_PORT = re.compile(r":\d{0,5}[/?#]")
_WEB = ("http", "https", "ws", "wss")

_BEARER = re.compile(r"(?<![\w-])(bearer)[ \t]++(?![=:])[^\s\"',;]{8,}+", re.IGNORECASE)
_JWT = re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}+(?:\.[\w-]*+){0,4}+")
_API_TOKEN = re.compile(r"wl_[0-9a-f]{32}_[A-Za-z0-9_-]++")
_PEM = re.compile(r"-----BEGIN[A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END[A-Z ]{0,40}-----|\Z)", re.DOTALL)


def hide_named(text: str, is_secret: Callable[[str], bool]) -> str:
    """Replace values that have the name of a secret before them."""
    kept: list[str] = []
    done = place = 0
    while (found := NAMED.search(text, place)) is not None:
        place = found.end()
        if is_secret(found["name"].lstrip("-")) or _has_word_before(text, found):
            region = _in_pair(text, found) if found["comma"] else value_region(text, found)
            if region is not None and region[0] < region[1]:
                kept += [text[done : region[0]], HIDDEN]
                done = place = region[1]
    return "".join([*kept, text[done:]]) if kept else text


def hide_private_keys(text: str) -> str:
    """Replace private keys in PEM format."""
    return _PEM.sub(HIDDEN, text) if "PRIVATE KEY-----" in text else text


def hide_bearer(text: str) -> str:
    """Replace what follows ``Bearer``."""
    return _BEARER.sub(rf"\1 {HIDDEN}", text)


def hide_tokens(text: str) -> str:
    """Replace JSON Web Tokens and API tokens, which are known by their form."""
    if "eyJ" in text:
        text = _JWT.sub(HIDDEN, text)
    return _API_TOKEN.sub(HIDDEN, text) if "wl_" in text else text


def hide_user_info(text: str) -> str:
    """Replace passwords in URLs; in URLs of the web also the user, who may be a token."""
    kept: list[str] = []
    done = end = 0
    start = text.find("://")
    while start >= 0:
        begin = start + 3
        if begin > end:
            word = _URL_WORD.match(text, begin)
            end = begin if word is None else word.end()
        at = text.rfind("@", begin, end)
        if at < 0:
            start = text.find("://", end)
            continue
        region = _user_info(text, start, at)
        if region is not None and region[0] < region[1]:
            kept += [text[done : region[0]], HIDDEN]
            done = begin = region[1]
        start = text.find("://", begin)
    return "".join([*kept, text[done:]]) if kept else text


def _user_info(text: str, start: int, at: int) -> tuple[int, int] | None:
    """What to hide of the URL whose ``://`` is at ``start``; ``at`` is the last @ of the word."""
    begin = start + 3
    user = _USER.match(text, begin, at)
    behind = begin if user is None else user.end()
    is_web = text[max(0, start - 5) : start].lower().endswith(_WEB)
    if (
        text[behind] == ":"
        and not text.startswith("://", behind)
        and not (is_web and _PORT.match(text, behind))
    ):
        return (begin if is_web else behind + 1), at
    return (begin, behind) if is_web and text[behind] == "@" else None


def _has_word_before(text: str, found: re.Match[str]) -> bool:
    """Whether a name is the name of a secret together with the word before it: ``api key: …``. A word before never makes a name innocent,
    because it may be a value: ``user: max token: …``."""
    start, name = found.start(), found["name"]
    if name.lower() not in SECONDS or text[start - 1 : start] != " ":
        return False
    before = _WORD_BEFORE.search(text[max(0, start - NEAR) : start])
    return before is not None and names_secret(f"{before[0]} {name}")


def value_region(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """The place of the value behind a name and its sign."""
    place, name = found.end(), found["name"]
    is_long = may_have_spaces(name) or name.lower() in ("string", "str", "phrase")
    opening = _OPENING.match(text, place)
    if opening is not None and not (is_long and found["sign"] == ":" and not found["closed"]):
        return _inside(text, opening)[:2]
    if text[place : place + 1] in ("(", "[", "{"):
        inner, behind = _bracket_end(text, place)
        end = _bare_end(text, behind)
        if end == behind:
            return place + 1, inner
        return place, _line_end(text, found) if is_long else end
    if is_long:
        return place, _line_end(text, found)
    if (lines := _LINES.match(text, place)) is not None:
        return place, lines.end()
    if (angles := _ANGLES.match(text, place)) is not None:
        return place, _bare_end(text, angles.end())
    scheme = _SCHEME.match(text, place)
    return place, _bare_end(text, place if scheme is None else scheme.end())


def _in_pair(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """The place of the second item of a pair; None if this is certainly no pair, but a longer list. An option of a command needs no pair."""
    start, place = found.start(), found.end()
    if not found["option"] and _PAIR_OPENS.search(text[max(0, start - NEAR) : start]) is None:
        return None
    if text[place : place + 1] in ("(", "[", "{"):
        return place + 1, _bracket_end(text, place)[0]
    if (opening := _OPENING.match(text, place)) is not None:
        begin, end, behind = _inside(text, opening)
        first = _CLOSING[opening["quote"][0]].search(text, begin)
        is_certain = first is not None and first.end() == behind
    elif (item := _ITEM.match(text, place)) is not None:
        begin, end, behind, is_certain = place, item.end(), item.end(), True
    else:
        return None
    is_list = is_certain and not found["option"] and _PAIR_CLOSES.match(text, behind) is None
    return None if is_list else (begin, end)


def _inside(text: str, opening: re.Match[str]) -> tuple[int, int, int]:
    """Where a quoted text begins and ends, and where its closing quote ends."""
    begin, quote = opening.end(), opening["quote"]
    if len(quote) == 3:
        end = text.find(quote, begin)
        return (begin, end, end + 3) if end >= 0 else (begin, len(text), len(text))
    return begin, *_quote_end(text, begin, quote, len(opening["escape"]), is_value=True)


def _quote_end(
    text: str, place: int, quote: str, escape: int, *, stop: int | None = None, is_value: bool = False
) -> tuple[int, int]:
    """Where a quoted text ends, and where its closing quote ends; ``escape`` backslashes are before its opening quote.

    Quoting a text again doubles backslashes and may add one before each quote. So the closing quote has as many backslashes as the opening quote;
    a quote with fewer belongs to the text around, and a quote with more to the value, or it follows a backslash at the end of the value, which
    hides more than the value. A quote before a letter does not close a value: the value was put between quotes without escaping.
    """
    stop = len(text) if stop is None else stop
    for found in _CLOSING[quote].finditer(text, place, stop):
        count = found.end() - found.start() - 1
        if count < escape:
            return found.start(), found.start()
        if count == escape and not (is_value and _is_letter(text, found.end())):
            return found.end() - 1 - escape, found.end()
    return stop, stop


def _is_letter(text: str, place: int) -> bool:
    """Whether a letter, a digit or an underscore is at this place."""
    char = text[place : place + 1]
    return char.isalnum() or char == "_"


def _bracket_end(text: str, place: int) -> tuple[int, int]:
    """Where the closing bracket begins and ends of the bracket that opens at ``place``."""
    depth = 0
    while (mark := _MARK.search(text, place)) is not None:
        place = mark.end()
        char = text[place - 1]
        if char in "\"'":
            place = _quote_end(text, place, char, place - mark.start() - 1)[1]
        elif char in "([{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return place - 1, place
    return len(text), len(text)


def _bare_end(text: str, place: int) -> int:
    """The end of a value without quotes, or of what is left of it at ``place``; brackets in it are skipped."""
    while True:
        run = _BARE.match(text, place)
        place = place if run is None else run.end()
        if text[place : place + 1] not in ("(", "[", "{"):
            return place
        place = _bracket_end(text, place)[1]


def _line_end(text: str, found: re.Match[str]) -> int:
    """The end of the line, or of the quotes that begin right before the name."""
    start, place = found.start(), found.end()
    end = text.find("\n", place)
    end = len(text) if end < 0 else end
    around = _QUOTED_BEFORE.search(text[max(0, start - NEAR) : start])
    if around is not None:
        end = _quote_end(text, place, around[2], len(around[1]), stop=end)[0]
    return end - 1 if text[end - 1 : end] == "\r" else end
