"""For tests of applications: jobs run in the test's own thread, on a real database, with a clock that the test moves.

    def test_welcome(windlass_sandbox):
        box = windlass_sandbox(app)                    # a temporary SQLite file, and no other database
        sign_up(user_id=7)                             # code under test: welcome.enqueue(user_id=user_id)
        box.assert_enqueued("welcome", user_id=7)
        box.drain()                                    # runs what is due, retries included as the clock is moved
        assert box.only("welcome").result == "sent"

Faults are real ones for the database: a killed job leaves its claim behind and is recovered, a lost lease is lost.
"""

from __future__ import annotations

from windlass.clock import ManualClock
from windlass.testing.capture import Capture, CapturedJob
from windlass.testing.faults import Faults, Killed
from windlass.testing.sandbox import Sandbox

__all__ = ["Capture", "CapturedJob", "Faults", "Killed", "ManualClock", "Sandbox"]
