"""An app that cannot be served: nobody provides what its handler asks for."""

from __future__ import annotations

from windlass import App


class Mailer:
    """What is missing."""


app = App()


@app.job
def send(mailer: Mailer) -> None: ...
