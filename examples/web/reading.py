"""Reads the facts of a page from its HTML, with the parser of the standard library."""

from __future__ import annotations

import codecs
import html
import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

from windlass_examples.web.stop_words import NO_TOPICS, STOP_WORDS

PIECE = 16_384
LONGEST = 500_000
SILENT = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas"})
HEADINGS = frozenset({"h1", "h2", "h3"})
BLOCKS = HEADINGS | frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt", "figcaption", "footer", "form",
        "h4", "h5", "h6", "head", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section", "table",
        "td", "th", "title", "tr", "ul",
    }
)  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)


@dataclass
class Facts:
    """The facts of a page."""

    title: str = ""
    description: str = ""
    headings: list[str] = field(default_factory=list)
    language: str = ""
    topics: list[str] = field(default_factory=list)
    words: int = 0
    links: int = 0
    text: str = ""


def read_page(body: bytes, charset: str | None = None) -> Facts:
    """The facts of a page, whatever its HTML is like."""
    reader = _Reader()
    reader.read(decode(body, charset))
    return reader.finish()


def decode(body: bytes, charset: str | None = None) -> str:
    """The text of a page: by its byte order mark, the header, its meta element, else as UTF-8."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(encoding, "replace").removeprefix("\ufeff")
    found = _META_CHARSET.search(body[:2048])
    for name in (charset, found[1].decode("ascii", "replace") if found else None):
        try:
            if name:
                return body.decode(name, "replace")
        except LookupError:
            continue
    return body.decode("utf-8", "replace")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._facts = Facts()
        self._silent: list[str] = []
        self._place = ""
        self._held: list[str] = []
        self._text: list[str] = []
        self._weights: Counter[str] = Counter()
        self._og_description = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, str] = {
            name: value or "" for name, value in reversed(attrs)
        }  # of two attributes the first counts
        if tag in SILENT:
            self._silent.append(tag)
        if self._silent:
            return
        if tag in BLOCKS:
            self._text.append("\n")
            if tag != "br":
                self._leave()
        if tag in HEADINGS or (tag == "title" and not self._facts.title):
            self._place = tag
        elif tag == "html":
            self._facts.language = given.get("lang", given.get("xml:lang", ""))
        elif tag == "meta":
            self._meta(given)
        elif tag == "a" and given.get("href"):
            self._facts.links += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SILENT:  # <svg/> has no end
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif not self._silent and tag in BLOCKS:
            self._text.append("\n")
            self._leave()

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._place:
            self._held.append(data)
        if self._place != "title":
            self._text.append(data)

    def read(self, text: str) -> None:
        """Read a text, up to 500,000 characters, in pieces. The parser tries a construct that does not end again and again, in quadratic time; nothing is read after
        a tag or comment that is longer than a piece, and a half construct at the end of the page is left out."""
        for start in range(0, min(len(text), LONGEST), PIECE):
            self.feed(text[start : start + PIECE])
            if len(self.rawdata) > PIECE and self.cdata_elem is None:
                break
        rest, self.rawdata = self.rawdata, ""
        if "<" not in rest:
            self.handle_data(html.unescape(rest))

    def finish(self) -> Facts:
        """The facts; of a page that ends early, what was there."""
        self._leave()
        facts = self._facts
        facts.text = "\n".join(filter(None, (_tidy(line) for line in "".join(self._text).split("\n"))))
        words = _words(facts.text)
        facts.words = len(words)
        self._weigh(facts.text, 1)
        facts.description = facts.description or self._og_description
        facts.language = _language(facts.language, words)
        ranked = sorted(self._weights.items(), key=lambda entry: (-entry[1], entry[0]))
        facts.topics = [word for word, _ in ranked[:5]]
        return facts

    def _meta(self, given: dict[str, str]) -> None:
        name = (given.get("name") or given.get("property") or given.get("http-equiv", "")).lower()
        content = _tidy(given.get("content", ""))
        if name == "description" and not self._facts.description:
            self._facts.description = content
        elif name == "og:description" and not self._og_description:
            self._og_description = content
        elif name == "keywords":
            self._weigh(content, 3)
        elif name == "content-language" and not self._facts.language:
            self._facts.language = content

    def _leave(self) -> None:
        """End a title or a heading, also one that has no end tag."""
        text = _tidy("".join(self._held))
        if text and self._place == "title":
            self._facts.title = text
            self._weigh(text, 5)
        elif text and self._place:
            self._facts.headings.append(text)
            self._weigh(text, 3)
        self._place, self._held = "", []

    def _weigh(self, text: str, weight: int) -> None:
        for word in _words(text):
            if len(word) > 2 and word not in NO_TOPICS:
                self._weights[word] += weight


def _tidy(text: str) -> str:
    return " ".join(text.split())


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _language(declared: str, words: list[str]) -> str:
    """The language that the page declares, else that of its commonest words; empty if neither says."""
    code = declared.strip().lower().replace("_", "-").partition("-")[0]
    if re.fullmatch(r"[a-z]{2,3}", code):
        return code
    counts = {name: sum(word in stop_words for word in words) for name, stop_words in STOP_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] * 10 >= len(words) > 0 else ""
