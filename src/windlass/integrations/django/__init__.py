"""Django: an installed app. Jobs are defined in ``jobs.py`` modules and use the project's database.

INSTALLED_APPS = [..., "windlass.integrations.django"]

# shop/jobs.py
from windlass.integrations.django import app

@app.job
def welcome(user_id: int) -> None: ...

$ python manage.py migrate           # Windlass's tables, too
$ python manage.py windlass_worker
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.integrations.django.project import DjangoApp

    app: DjangoApp


def __getattr__(name: str) -> Any:
    """``app`` is made when it is first asked for, from the project's settings; Django is set up if it was not yet."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from windlass.integrations.django.project import current_app

    return current_app()
