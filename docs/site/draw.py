"""Makes the pictures of the mermaid drawings in the documentation, so that a reader's browser loads no program for them.

    npm pack mermaid@11 && tar xzf mermaid-11.*.tgz package/dist/mermaid.min.js
    python -m docs.site.draw package/dist/mermaid.min.js

It needs Chromium on PATH. A picture is named by its source, so a changed drawing is a new picture; pictures that no page has are removed.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.site.hooks import DOCS, DRAWING, drawing

PAGE = """<!doctype html><meta charset=utf-8><body><pre id=source>{source}</pre><div id=out></div><script src="{script}"></script><script>
mermaid.initialize({{startOnLoad: false, theme: "neutral", fontFamily: "system-ui, sans-serif", htmlLabels: false, flowchart: {{htmlLabels: false}}}});
mermaid.render("drawing", document.getElementById("source").textContent).then(({{svg}}) => {{ document.getElementById("out").innerHTML = svg; }});
</script>"""


def main(script: Path) -> None:
    """Draw what has no picture."""
    wanted = set()
    for page in sorted(DOCS.rglob("*.md")):
        for source in DRAWING.findall(page.read_text("utf-8")):
            wanted.add(file := drawing(source))
            if not file.exists():
                file.write_text(draw(source, script), "utf-8")
                print(f"{page.relative_to(DOCS)}: {file.name}")
    for file in set(drawing("").parent.glob("*.svg")) - wanted:
        file.unlink()


def draw(source: str, script: Path) -> str:
    """The SVG of a drawing."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(PAGE.format(source=html.escape(source), script=script.resolve().as_uri()), "utf-8")
        command = [
            "chromium", "--headless", "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()
        ]  # fmt: skip
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r'<div id="out">(<svg.*?</svg>)</div>', shown, re.DOTALL)
    if found is None:
        raise SystemExit(f"Chromium drew nothing for:\n{source}")
    svg = found[1].replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1)
    return re.sub(r"<br\s*>", "<br/>", svg) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
