"""Reads the facts that the example needs from HTML, with the standard library's parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

SILENT = frozenset({"script", "style", "template", "noscript"})


@dataclass
class PageFacts:
    title: str = ""
    headings: list[str] = field(default_factory=list)
    words: int = 0
    links: int = 0


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.facts = PageFacts()
        self._open: list[str] = []
        self._heading: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and any(name == "href" for name, _ in attrs):
            self.facts.links += 1
        if tag not in ("br", "img", "meta", "link", "input", "hr"):
            self._open.append(tag)
        if tag in ("h1", "h2"):
            self._heading = []

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open and self._open.pop() != tag:
                pass
        if tag in ("h1", "h2") and self._heading:
            self.facts.headings.append(" ".join(self._heading))
            self._heading = []

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not text or SILENT.intersection(self._open):
            return
        if "title" in self._open:
            self.facts.title = text
            return
        if {"h1", "h2"}.intersection(self._open):
            self._heading.append(text)
        self.facts.words += len(text.split())


def read_page(html: str) -> PageFacts:
    """Return the facts of a page."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.facts
