"""The files of the dashboard, as they are sent: with a type, an ETag and a gzip form, under a path that changes with their content."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
MODULES = {
    "preact": "vendor/preact.js",
    "preact/hooks": "vendor/preact-hooks.js",
    "htm": "vendor/htm.js",
    "@preact/signals": "vendor/signals.js",
    "@preact/signals-core": "vendor/signals-core.js",
}
"""The names that modules are imported by, for the import map."""


@dataclass(frozen=True)
class Asset:
    """One file."""

    content: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)


class Assets:
    """All files by their path below ``static``, and the page that loads them."""

    def __init__(self, folder: Path = FOLDER) -> None:
        found = sorted(path for path in folder.rglob("*") if path.suffix in TYPES)
        self.files = {
            path.relative_to(folder).as_posix(): Asset(path.read_bytes(), TYPES[path.suffix])
            for path in found
        }
        content = hashlib.sha256()
        for name, asset in self.files.items():
            content.update(f"{name}\0{asset.etag}\0".encode())
        self.digest = content.hexdigest()[:16]
        self._needed: dict[str, list[str]] = {}
        at = self.prefix
        self._import_map = json.dumps({"imports": {name: f"./{at}{path}" for name, path in MODULES.items()}})

    @property
    def prefix(self) -> str:
        """The path of the files below the base path; it changes with the content of any file, so that browsers may keep all of them."""
        return f"static/{self.digest}/"

    @cached_property
    def policy(self) -> str:
        """The Content-Security-Policy of the page: this origin, no inline script but the import map, no inline style, no HTML from text."""
        digest = base64.b64encode(hashlib.sha256(self._import_map.encode()).digest()).decode()
        return (
            f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "base-uri 'self'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        )

    def needed(self, screen: str) -> list[str]:
        """The modules of a screen, given by its path, with all that they import: the browser asks for them at once."""
        first, _, rest = screen.strip("/").partition("/")
        name = f"pages/{first.removesuffix('s') if rest and first in _OF_ONE else first or 'overview'}.js"
        if name not in self._needed:
            found: set[str] = set()
            waiting = ["app.js", name]
            while waiting:
                module = waiting.pop()
                if module in self.files and module not in found:
                    found.add(module)
                    folder = posixpath.dirname(module)
                    names = _IMPORTS.findall(self.files[module].content.decode())
                    waiting += [
                        MODULES.get(one) or posixpath.normpath(posixpath.join(folder, one)) for one in names
                    ]
            if name not in found:  # no screen: the page says so
                return sorted(found)
            self._needed[name] = sorted(found)
        return self._needed[name]

    def page(self, base: str, screen: str = "") -> bytes:
        """The page of all screens, for a base path: empty, or a path without a slash at its end."""
        at = self.prefix
        modules = self.needed(screen)
        lines = [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<base href="{escape(base)}/">',
            "<title>Windlass</title>",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<link rel="icon" type="image/svg+xml" href="{at}icon.svg">',
            *(f'<link rel="stylesheet" href="{at}{name}">' for name in _STYLES),
            f'<script src="{at}theme.js"></script>',
            f'<script src="{at}vendor/uplot.js" defer></script>',
            f'<script type="importmap">{self._import_map}</script>',
            *(f'<link rel="modulepreload" href="{at}{name}">' for name in modules),
            f'<script type="module" src="{at}app.js"></script>',
            "</head>",
            '<body><div id="app"></div>',
            "<noscript>The dashboard needs JavaScript. The same facts: windlass jobs ls, or the REST API.</noscript>",
            "</body>",
            "</html>",
            "",
        ]
        return "\n".join(lines).encode()


_OF_ONE = ("jobs", "pipelines")
_IMPORTS = re.compile(r"""\b(?:from|import) ?["']([^"']+)["']""")
_STYLES = ("styles/tokens.css", "styles/components.css", "styles/pages.css", "vendor/uplot.css")
