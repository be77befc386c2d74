"""``windlass init``: write the first files of a project."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.cli.exit_codes import ExitCode, complain, say

SETTINGS = """\
# Settings of this project. `windlass config show` lists every setting with its value and its origin.

[database]
url = "sqlite:///windlass.db" # or postgresql://user@host/database, then run `windlass db migrate`

[background]
processors = 4 # of each phase; app.job(processors=...) sets the number of one phase

[retention]
completed = "7d"
failed = "90d"
cancelled = "30d"
"""
JOBS = '''\
"""The jobs of this project."""

import windlass

app = windlass.App()  # the database and all other settings are in windlass.toml


@app.job(retry=windlass.retry.exponential(attempts=5), timeout=60)
async def welcome(name: str) -> str:
    return f"Hello, {name}!"


if __name__ == "__main__":
    job = welcome.enqueue(name="world")  # durable when it returns
    print("waits for a worker:", job.id)
    print(job.result(timeout=60))
'''
FILES = {"windlass.toml": SETTINGS, "jobs.py": JOBS}


@click.command()
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="[FOLDER]"
)
def init(folder: Path) -> int:
    """Write windlass.toml and a first module jobs.py into FOLDER (default: this one).

    A file that exists is never changed: then nothing is written, and the exit code is 4. Prints the names of the new files.
    """
    made: list[Path] = []
    if there := [name for name in FILES if _exists(folder / name)]:
        return _refuse(there, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                made.append(folder / name)
                file.write(text)
    except BaseException as error:
        for path in made:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):  # another process has just made it
            return _refuse([name for name in FILES if _exists(folder / name)], folder)
        if isinstance(error, OSError):
            raise click.UsageError(
                f"{folder} cannot be written: {error.strerror or error}; name another folder"
            ) from error
        raise
    for path in made:
        click.echo(str(path))
    where = "" if folder == Path() else f"cd {folder}, then "
    say(f"next: {where}run `windlass dev jobs:app`, and in another terminal `python jobs.py`")
    return ExitCode.DONE


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()  # a link to nowhere would be written through


def _refuse(names: list[str], folder: Path) -> int:
    where = "here" if folder == Path() else f"in {folder}"
    verb = "exists" if len(names) == 1 else "exist"
    return complain(
        f"{' and '.join(names)} already {verb} {where}; nothing was written. Remove what you do not need, or name another folder",
        ExitCode.CONFLICT,
    )
