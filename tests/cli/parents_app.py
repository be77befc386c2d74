"""An app that only the parent of several workers can load."""

from __future__ import annotations

import sys

from windlass import App

if "--processes" not in sys.argv:
    raise RuntimeError("not in a child")
app = App()


@app.job
async def hello() -> str:
    return "hello"
