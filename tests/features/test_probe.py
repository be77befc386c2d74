"""A feature is added by one folder and one line, and the core takes it through the whole life of a job."""

from __future__ import annotations

import json
import subprocess
import sys


def test_a_feature_of_ones_own_goes_through_the_whole_life_of_a_job(store_url: str) -> None:
    """Stored, retried, advanced, ended, retried by hand, recovered, pruned; and its duty runs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.features.life", store_url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["seen"] == {"mine": " retried completed again completed", "two": " advanced"}
    assert seen["folded"] == [True, True]
    assert seen["left"], "only the note of the job that still lives is there"
