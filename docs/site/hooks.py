"""What the documentation site changes about a page: links out of docs/, drawings, and the file names of examples.

The pages are written for a reader of the repository; mkdocs calls these functions for each page of the site.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
REPOSITORY = "https://github.com/windlass-jobs/windlass/blob/main"
ELSEWHERE = {
    ROOT / "examples" / "visibility" / "README.md": "examples/visibility.md",
    ROOT / "examples" / "timesheets" / "README.md": "examples/timesheets.md",
    ROOT / "examples" / "summaries" / "README.md": "examples/summaries.md",
    ROOT / "CHANGELOG.md": "development/changelog.md",
    ROOT / "CONTRIBUTING.md": "development/contributing.md",
    ROOT / "SECURITY.md": "development/security.md",
}
"""Files outside docs/ that are pages of the site."""

BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
FILE = re.compile(r"^<!-- file: (\S+) -->\n```(\w+)$", re.MULTILINE)
MARK = re.compile(r"^<!-- (?:runnable|not run: .*?|made by .*?|end of .*?) -->\n", re.MULTILINE)
CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
BOX = re.compile(r'viewBox="\S+ \S+ (\d+)')
DRAWING = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def drawing(source: str) -> Path:
    """The file with the picture of a mermaid drawing; docs/site/draw.py makes it."""
    return DOCS / "site" / "drawings" / f"{hashlib.sha256(source.encode()).hexdigest()[:12]}.svg"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for source, uri in ELSEWHERE.items():
        files.append(File.generated(config, uri, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The text of a page for the site."""
    uri = page.file.src_uri
    source = next((path for path, name in ELSEWHERE.items() if name == uri), DOCS / uri)
    markdown = DRAWING.sub(lambda found: _picture(found[1], uri), markdown)
    markdown = MARK.sub("", FILE.sub(r'```\2 title="\1"', markdown))
    parts, end = [], 0
    for block in BLOCK.finditer(markdown):
        parts += [_with_links(markdown[end : block.start()], source, uri), block[0]]
        end = block.end()
    return "".join([*parts, _with_links(markdown[end:], source, uri)])


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """The page as HTML. In a table of Markdown a bar in code is written with a backslash, which is shown on repository hosts only as a bar."""
    return CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)


def _with_links(text: str, source: Path, uri: str) -> str:
    return LINK.sub(lambda found: _link(found[1], source, uri), text)


def _link(target: str, source: Path, uri: str) -> str:
    name, mark, anchor = target.partition("#")
    if (
        not name
        or "://" in target
        or target.startswith("mailto:")
        or (DOCS / uri).parent.joinpath(name).exists()
    ):
        return target
    there = (source.parent / name).resolve()
    if there in ELSEWHERE:
        return _relative(ELSEWHERE[there], uri) + mark + anchor
    if there.is_relative_to(DOCS) and there.is_file():
        return _relative(there.relative_to(DOCS).as_posix(), uri) + mark + anchor
    return f"{REPOSITORY}/{there.relative_to(ROOT).as_posix()}{mark}{anchor}"


def _relative(wanted: str, uri: str) -> str:
    return "../" * uri.count("/") + wanted


def _picture(source: str, uri: str) -> str:
    file = drawing(source)
    if not file.exists():
        raise SystemExit(f"docs: {uri} has a new drawing; make its picture with `python -m docs.site.draw`")
    name = _relative(file.relative_to(DOCS).as_posix(), uri)
    size = BOX.search(file.read_text("utf-8"))  # a picture without a width would fill the page
    width = f' width="{size[1]}"' if size else ""
    return f"[![Drawing]({name}){{ .drawing{width} }}]({name})"
