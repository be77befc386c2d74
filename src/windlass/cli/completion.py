"""``windlass completion``: scripts that complete commands, options, and ids of the newest jobs in a shell."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, get_completion_class

if TYPE_CHECKING:
    from windlass.control.service import Control

SHELLS = ("bash", "zsh", "fish", "powershell")
NEWEST = 50
VARIABLE = "_WINDLASS_COMPLETE"

_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = $commandAst.CommandElements | ForEach-Object { $_.ToString() }
    $env:COMP_WORDS = ($words -join "`n")
    $env:COMP_WORD = $wordToComplete
    $env:%(complete_var)s = "powershell_complete"
    try {
        %(prog_name)s | ForEach-Object {
            $value, $help = $_ -split "`t", 2
            $tip = if ($help) { $help } else { $value }
            [System.Management.Automation.CompletionResult]::new($value, $value, "ParameterValue", $tip)
        }
    } finally {
        Remove-Item Env:COMP_WORDS, Env:COMP_WORD, Env:%(complete_var)s -ErrorAction SilentlyContinue
    }
}
"""


class PowerShellComplete(ShellComplete):
    """Completion for PowerShell, which click does not have."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        words = os.environ.get("COMP_WORDS", "").split("\n")[1:]
        incomplete = os.environ.get("COMP_WORD", "")
        if incomplete and words and words[-1] == incomplete:
            words.pop()
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.value}\t{item.help or ''}"


add_completion_class(PowerShellComplete)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:        eval "$(windlass completion bash)"           in ~/.bashrc
    zsh:         eval "$(windlass completion zsh)"            in ~/.zshrc
    fish:        windlass completion fish | source            in config.fish
    powershell:  windlass completion powershell | Out-String | Invoke-Expression   in $PROFILE
    """
    found = get_completion_class(shell)
    root = ctx.find_root()
    if found is None:  # pragma: no cover  every shell of the choice has a class
        raise click.UsageError(f"there is no completion for {shell}")
    complete = found(root.command, {}, "windlass", VARIABLE)
    click.echo(complete.source_template % complete.source_vars(), nl=False)


def complete_jobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the newest jobs."""

    def read(service: Control) -> list[CompletionItem]:
        page = service.jobs.list(limit=NEWEST)
        return [
            CompletionItem(job.id, help=f"{job.kind} {job.state}")
            for job in page.jobs
            if job.id.startswith(incomplete)
        ]

    return _read(ctx, read)


def complete_phases(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of phases."""
    return _read(ctx, lambda service: _named(service.phases.names(), incomplete))


def complete_instances(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids of living instances."""

    def read(service: Control) -> list[CompletionItem]:
        living = [item for item in service.instances.list() if item.is_alive]
        return [
            CompletionItem(item.id, help=f"{item.host} {item.state}")
            for item in living
            if item.id.startswith(incomplete)
        ]

    return _read(ctx, read)


def complete_schedules(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of schedules."""
    return _read(ctx, lambda service: _named([item.name for item in service.schedules.list()], incomplete))


def complete_kinds(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the kinds that --app or the application of --server defines."""
    target = ctx.params.get("target")
    if target is None:
        if ctx.params.get("server") is None and "WINDLASS_SERVER" not in os.environ:
            return []
        return _read(
            ctx, lambda service: _named([item.name for item in service.pipelines.list()], incomplete)
        )
    try:
        from windlass.cli.load_app import load_app

        return _named([kind.name for kind in load_app(target).parts.registry], incomplete)
    except Exception:  # noqa: BLE001  a shell that completes shows no errors
        return []


def _named(names: Any, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _read(ctx: click.Context, read: Callable[[Control], list[CompletionItem]]) -> list[CompletionItem]:
    """What a reading of the database or of the server finds; nothing if it cannot be read."""
    try:
        from windlass.cli.control import control
        from windlass.cli.database import choose_service

        chosen = choose_service(*(ctx.params.get(name) for name in ("server", "target", "url")))
        with control(chosen) as service:
            return read(service)
    except Exception:  # noqa: BLE001  a shell that completes shows no errors
        return []
