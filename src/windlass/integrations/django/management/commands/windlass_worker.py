"""``manage.py windlass_worker``: serve the project's jobs until it is stopped."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from windlass.integrations.serving import become_worker

TARGET = "windlass.integrations.django:app"


class Command(BaseCommand):
    help = "Serve the project's jobs. SIGTERM or Ctrl-C stops the worker gracefully; the options are those of `windlass worker`."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--processes", type=int, help="Worker processes.")
        parser.add_argument(
            "--phase", action="append", default=[], metavar="NAME[=N]", help="Serve only this phase."
        )
        parser.add_argument("--drain", action="store_true", help="End when no job is left.")
        parser.add_argument("--grace", metavar="SECONDS", help="Grace period for running jobs.")
        parser.add_argument(
            "--wait-for-database",
            metavar="SECONDS",
            help="How long to wait at the start for an unreachable database.",
        )
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="Any other setting of an instance.",
        )
        parser.add_argument("--log", choices=["auto", "console", "json", "none"], help="Log format.")
        parser.add_argument(
            "--level", choices=["debug", "info", "warning", "error"], help="Lowest log level."
        )
        parser.add_argument("--metrics", metavar="[HOST:]PORT", help="Serve metrics and health here.")

    def handle(self, *args: Any, **options: Any) -> None:
        given = ["--drain"] if options["drain"] else []
        for name in ("phase", "set"):
            for value in options[name]:
                given += [f"--{name}", value]
        for name in ("processes", "grace", "wait-for-database", "log", "level", "metrics"):
            value = options[name.replace("-", "_")]
            if value is not None:
                given += [f"--{name}", str(value)]
        become_worker(TARGET, given)
