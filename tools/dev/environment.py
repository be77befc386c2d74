"""Virtual environments of the checkout: `.venv` for the interpreter that runs ``./dev``, `.venv-3.13` and so on for others.

Set-up makes one with its interpreter, installs uv into it, installs the hashed lock with uv and the project itself editable. A stamp inside
is written last and names everything set-up depends on: a later run with the same stamp skips it all, and a run that was killed half-way
leaves no stamp, so the next one starts over.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.dev.interpreters import Interpreter, running
from tools.dev.steps import ROOT, StepError, say, step

DEV_LOCK = ROOT / "requirements-dev.lock"
RUNTIME_LOCK = ROOT / "requirements.lock"
EXAMPLES = ROOT / "src" / "windlass_examples"
"""The name that the folder examples/ has as a package. A link in git would be a text file in some checkouts and archives."""
SETUP_VERSION = 1  # raise it when the steps below change in a way that old environments must not survive
NOT_YOURS = "run it as the owner of the checkout, or clone the repository to a folder of your own"
INDEX_CURE = (
    "check the network and the package index. If a hash or a version does not match, the lock is damaged:"
    " `git checkout requirements-dev.lock`, or write it anew with `./dev lock`."
)


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def packages_identity() -> str:
    """What the installed packages follow from."""
    return digest(
        *(path.read_text() if path.exists() else "" for path in (DEV_LOCK, ROOT / "pyproject.toml"))
    )


class Environment:
    """The virtual environment of one interpreter."""

    def __init__(self, interpreter: Interpreter | None = None) -> None:
        self.interpreter = interpreter or running()
        is_main = self.interpreter.minor == running().minor
        self.suffix = "" if is_main else f"-{self.interpreter.minor}"
        self.folder = ROOT / f".venv{self.suffix}"
        self.python = self.folder / "bin" / "python"
        self.stamp_file = self.folder / "windlass-dev-stamp.json"

    # --- whether it is as it should be ---

    def identity(self) -> str:
        """What an environment is tied to for life: its interpreter and its place (scripts hold absolute paths)."""
        real = os.path.realpath(self.interpreter.path)
        return digest(str(SETUP_VERSION), self.interpreter.text, real, str(ROOT))

    def stamp(self) -> dict[str, str]:
        """The stamp of a finished set-up; empty when there is none, or when its interpreter has gone away."""
        try:
            content = json.loads(self.stamp_file.read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) and os.access(self.python, os.X_OK) else {}

    def write_stamp(self, packages: str) -> None:
        self.stamp_file.write_text(json.dumps({"venv": self.identity(), "packages": packages}))

    def is_fresh(self) -> bool:
        return self.stamp() == {"venv": self.identity(), "packages": packages_identity()}

    @contextlib.contextmanager
    def lock(self) -> Iterator[int]:
        """The open lock file of this environment. The lock goes with the processes that hold it, however they die."""
        name = f".dev{self.suffix}.lock"
        try:
            descriptor = os.open(ROOT / name, os.O_RDONLY | os.O_CREAT, 0o644)
        except OSError as error:
            raise StepError(f"opening {name} in the checkout", str(error), NOT_YOURS) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Hold the environment in working order for as long as the command runs.

        Commands share the lock, set-up has it alone: two runs at once never install over each other, and nobody
        exchanges the packages under a test run that is still going.
        """
        link_examples()
        with self.lock() as descriptor:
            while True:
                notice = f"another ./dev is setting up {self.folder.name}; waiting for it ..."
                take(descriptor, fcntl.LOCK_SH, notice)
                if self.is_fresh():
                    break
                take(descriptor, fcntl.LOCK_EX, "waiting for the other ./dev of this checkout to end ...")
                if not self.is_fresh():
                    self.set_up(descriptor)
            yield

    # --- making it so ---

    def set_up(self, descriptor: int) -> None:
        """Bring the environment to what the lock says."""
        began = time.monotonic()
        packages = packages_identity()
        if not DEV_LOCK.exists():
            raise StepError(
                "reading requirements-dev.lock", "there is no such file", "git checkout it, or `./dev lock`"
            )
        self.set_up_uv(descriptor, locked_requirement("uv"))
        self.stamp_file.unlink()
        env = self.uv_environment()
        step(
            "installing the locked packages",
            [*self.uv("pip", "sync"), "--require-hashes", str(DEV_LOCK)],
            env=env,
            holding=descriptor,
            cure=INDEX_CURE,
        )
        step(
            "installing windlass itself, editable",
            [*self.uv("pip", "install"), "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
            env=env,
            holding=descriptor,
            cure="see the message above: most likely pyproject.toml does not hold together.",
        )
        self.write_stamp(packages)
        say(f"dev: ready in {time.monotonic() - began:.1f} s")

    def set_up_uv(self, descriptor: int, requirement: str) -> None:
        """Make the environment with uv in it, unless one of this interpreter and place was finished before."""
        name = self.folder.name
        for place in (ROOT, self.folder):
            if place.exists() and not os.access(place, os.W_OK):
                raise StepError("writing to the checkout", f"{place} is not writable", NOT_YOURS)
        if self.stamp().get("venv") == self.identity():
            return
        if self.folder.is_symlink():
            self.folder.unlink()
        elif self.folder.exists():
            say(f"dev: {name} is incomplete, or belongs to another Python or folder; making it anew")
            try:
                shutil.rmtree(self.folder)
            except OSError as error:
                raise StepError(f"removing the old {name}", str(error), NOT_YOURS) from error
        step(
            f"making {name} (Python {self.interpreter.version})",
            [self.interpreter.path, "-m", "venv", str(self.folder)],
            holding=descriptor,
            cure="if a module is missing: Debian and Ubuntu ship it apart from Python,"
            f" apt-get install python3-venv (or python{self.interpreter.minor}-venv)."
            " Else see the message above.",
        )
        # uv installs the rest ten times as fast as pip does. Its own version and hashes come from the lock, too.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "uv.txt"
            file.write_text(requirement)
            pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check"]
            step("installing uv", [*pip, "--requirement", str(file)], holding=descriptor, cure=INDEX_CURE)
        self.write_stamp("")

    # --- uv ---

    def uv(self, *arguments: str) -> list[str]:
        return [str(self.folder / "bin" / "uv"), *arguments, "--python", str(self.python)]

    def uv_environment(self) -> dict[str, str]:
        """The environment for uv: no downloads of interpreters, a cache it may write, and pip's index.

        uv does not read pip's configuration. Where pip is told another index (a company mirror, a build machine), uv has
        to be told too, and only through the environment: an address in a file might end up in a commit.
        """
        env = dict(os.environ, UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1")
        env.pop("VIRTUAL_ENV", None)
        if "UV_CACHE_DIR" not in env and not cache_is_writable(env):
            env["UV_CACHE_DIR"] = str(self.folder / "uv-cache")
        settings = self.pip_settings()
        if "UV_DEFAULT_INDEX" not in env and "UV_INDEX_URL" not in env and "index-url" in settings:
            env["UV_DEFAULT_INDEX"] = settings["index-url"]
        if "SSL_CERT_FILE" not in env and "cert" in settings:
            env["SSL_CERT_FILE"] = settings["cert"]
        return env

    def pip_settings(self) -> dict[str, str]:
        """pip's settings by bare name, from its files and its variables, the stronger ones on top."""
        answer = subprocess.run(
            [str(self.python), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
        )
        found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
        for line in answer.stdout.splitlines():
            key, _, value = line.partition("=")
            section, _, name = key.rpartition(".")
            if section in found:
                found[section][name] = value.strip("'\"")
        return found["global"] | found["install"] | found[":env:"]


def link_examples() -> None:
    """Make the link by which a checkout imports its examples under the name that they have in the wheel."""
    target = Path("..") / "examples"
    if EXAMPLES.is_symlink() and EXAMPLES.readlink() == target:
        return
    fresh = EXAMPLES.with_name(f".windlass_examples-{os.getpid()}")
    try:
        fresh.symlink_to(target, target_is_directory=True)
        fresh.replace(EXAMPLES)  # at once, also beside another ./dev
    except OSError as error:
        raise StepError(f"making the link {EXAMPLES} to examples/", str(error), NOT_YOURS) from error


def take(descriptor: int, kind: int, notice: str) -> None:
    """Take the lock, alone or shared, and say so if that means waiting."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # two runs that both wait while sharing would wait for ever
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"dev: {notice}")
        fcntl.flock(descriptor, kind)


def locked_requirement(name: str) -> str:
    """The lines of one package in the lock; their hashes make pip check them."""
    found: list[str] = []
    for line in DEV_LOCK.read_text().splitlines(keepends=True):
        if line.startswith(f"{name}==") or (found and line.startswith((" ", "\t"))):
            found.append(line)
        elif found:
            break
    if not found:
        raise StepError(
            f"finding {name} in requirements-dev.lock", "it is not there", "write it anew: `./dev lock`"
        )
    return "".join(found)


def cache_is_writable(env: dict[str, str]) -> bool:
    """Whether uv's usual cache folder can be made or written; a home may be missing or read-only."""
    folder = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or "/nonexistent") / ".cache") / "uv"
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
