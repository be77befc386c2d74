"""The reader of pages: facts as a person would read them, whatever the HTML is like."""

from __future__ import annotations

import pytest

from windlass_examples.web.reading import decode, read_page


def test_a_page() -> None:
    facts = read_page(
        b"<!doctype html><html lang='en-GB'><head><title> Knots &amp; ropes </title><meta name=Description content=' All\nabout it '>"
        b"<style>h1 { margin: 0 }</style></head><body><h1>One <b>bold</b> knot</h1><p>three little words<br>and <a href=x>a link</a></p>"
        b"<h2>Two<h3>Three</h3><script>no('words')</script><noscript>none</noscript><svg><title>drawing</title></svg><a>no link</a></body>"
    )
    assert (facts.title, facts.description, facts.language) == ("Knots & ropes", "All about it", "en")
    assert facts.headings == ["One bold knot", "Two", "Three"]
    assert (facts.links, facts.words) == (1, 13)
    assert facts.topics[:2] == ["knots", "ropes"]
    assert "drawing" not in facts.text and "none" not in facts.text and "margin" not in facts.text


@pytest.mark.parametrize(
    ("body", "language"),
    [
        (b"<html xml:lang=fr><p>x", "fr"),
        (b"<meta http-equiv=content-language content=et-EE><p>x", "et"),
        ("<p>Das ist nicht die Seite, die wir über Knoten und Seile suchen".encode(), "de"),
        (b"<p>This is not the page that we were looking for", "en"),
        (b"<html lang='<script>'><p>zzz yyy xxx", ""),
        (b"", ""),
    ],
)
def test_languages(body: bytes, language: str) -> None:
    assert read_page(body).language == language


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("é".encode("latin-1"), "iso-8859-1"),
        ('<meta charset="windows-1252">é'.encode("cp1252"), None),
        ("<meta http-equiv=Content-Type content='text/html; charset=utf-8'>é".encode(), None),
        ("é".encode("utf-16"), "utf-8"),
        ("é".encode(), "no-such-charset"),
        ("é".encode(), "hex"),
    ],
)
def test_charsets(body: bytes, charset: str | None) -> None:
    assert decode(body, charset).endswith("é")


@pytest.mark.parametrize(
    "body",
    [b"<title>", b"<h1>half", b"<svg><svg>" * 5000, b"<p" * 5000, b"</script></h1>&#xfffffff;&bogus;", b"<!--", b"\x00\xff<h1>x", b"<a x='" * 20_000, b"<a =" * 20_000],
)  # fmt: skip
def test_broken_pages_have_facts_too(body: bytes) -> None:
    assert read_page(body).words >= 0


def test_the_first_title_and_description_count() -> None:
    facts = read_page(
        b"<title>One</title><title>Two</title><meta property=og:description content=b><meta name=description content=a>"
    )
    assert (facts.title, facts.description) == ("One", "a")
    assert read_page(b"<meta property=og:description content=b>").description == "b"
