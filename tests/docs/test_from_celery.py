"""The page "Coming from Celery": both versions of its application run, and do the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

pytestmark = [pytest.mark.timing, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "from-celery.md"
URLS = ["https://a.example", "https://b.example", "https://c.example"]

SHOP = '''
"""What the tasks use: pay() fails once, and send() says who got what."""
from pathlib import Path

def pay(order):
    tried = Path("tried")
    if not tried.exists():
        tried.touch()
        raise ConnectionError("the bank is away")
    return f"paid {order}"

def download(url):
    return f"the page of {url}"

def send(user, text):
    with Path("sent").open("a") as file:
        file.write(f"{user} {text}\\n")
'''

RUN_CELERY = """
import json, sys, time
from pathlib import Path
from celery.contrib.testing.worker import start_worker
import tasks
with start_worker(tasks.app, perform_ping_check=False, pool="solo", loglevel="error"):
    found = tasks.run(json.loads(sys.argv[1]))
    deadline = time.monotonic() + 60
    while not Path("sent").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
entry = tasks.app.conf.beat_schedule["morning"]
print(json.dumps([*found, Path("sent").read_text(), [entry["task"], entry["args"]]]))
"""

RUN_WINDLASS = """
import json, sys, time
from pathlib import Path
import jobs
worker = jobs.app.worker()
worker.start()
found = jobs.run(json.loads(sys.argv[1]))
deadline = time.monotonic() + 60
while not Path("sent").exists() and time.monotonic() < deadline:
    time.sleep(0.05)
(schedule,) = jobs.app.store.schedules.list()
worker.stop(grace=5)
jobs.app.close()
print(json.dumps([*found, Path("sent").read_text(), [schedule.kind, list(schedule.args.values())]]))
"""


def version(name: str) -> str:
    """The code of one version, as the page has it."""
    (code,) = re.findall(rf"```python\n# {name}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return str(code)


def result_of(folder: Path, name: str, program: str) -> list[object]:
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    (folder / name).write_text(version(name))
    run = subprocess.run(
        [sys.executable, "-c", program, json.dumps(URLS)],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found: list[object] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_both_versions_do_the_same(tmp_path: Path) -> None:
    before = result_of(tmp_path / "before", "tasks.py", RUN_CELERY)
    after = result_of(tmp_path / "after", "jobs.py", RUN_WINDLASS)
    assert before[:4] == after[:4] == ["paid 7", 4, {"pages": 3, "words": 12}, "7 your order waits\n"]
    assert [before[4], after[4]] == [["tasks.remind", [7]], ["remind", [7]]]
