"""``./dev lock``: both locks, with versions and hashes, and not one address of an index."""

import fcntl
import re
import shutil
from pathlib import Path

from tools.dev.environment import DEV_LOCK, RUNTIME_LOCK, Environment, take
from tools.dev.steps import StepError, say, step


def lock(arguments: list[str]) -> int:
    """Needs only uv, any version of it, so that a damaged lock can be made anew."""
    # --universal: one file for every Python and platform. --no-annotate, --no-header: no paths and no command lines.
    common = ["--universal", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    common += ["--python-version", "3.11", *arguments]
    environment = Environment()
    compiler = [str(environment.folder / "bin" / "uv"), "pip", "compile", "pyproject.toml"]
    cure = "the message above names what can not be met; see [project] in pyproject.toml"
    with environment.lock() as descriptor:
        take(descriptor, fcntl.LOCK_EX, "waiting for the other ./dev of this checkout to end ...")
        environment.set_up_uv(descriptor, "uv\n")
        env = environment.uv_environment()
        for target, extra in ((RUNTIME_LOCK, []), (DEV_LOCK, ["--all-extras", "--group", "dev"])):
            new = environment.folder / target.name
            new.write_text(pinned_versions(target))
            step(f"locking {target.name}", [*compiler, *common, *extra, "-o", str(new)], env=env, cure=cure)
            if "://" in new.read_text():
                raise StepError(
                    f"looking for addresses in {target.name}", "found ://", "remove the direct reference"
                )
            shutil.move(new, target)
    say("dev: both locks written; the next command installs them")
    return 0


def pinned_versions(lock_file: Path) -> str:
    """The versions of a lock, which uv keeps where it can; not the hashes, for it would keep damaged ones too."""
    text = lock_file.read_text() if lock_file.exists() else ""
    return "".join(f"{line}\n" for line in re.findall(r"^([\w.-]+==[\w.!+-]+)", text, re.MULTILINE))
