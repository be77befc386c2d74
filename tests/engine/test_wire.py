"""Messages between an instance and its child processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.leases import lease
from windlass.engine.processes.wire import LARGEST, Frames, lease_facts, pack, to_lease
from windlass.model import Flag, Json


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_messages_come_out_whole_however_the_bytes_come_in(size: int) -> None:
    messages = [{"do": "touch"}, {"text": "ü🪝\ud800\0" * 50}, {}]
    data = b"".join(pack(message) for message in messages)
    frames = Frames()
    heard = [
        message for start in range(0, len(data), size) for message in frames.feed(data[start : start + size])
    ]
    assert heard == messages


@pytest.mark.parametrize(
    "rubbish",
    [b"\0\0\0\2[]", b"\0\0\0\5hello", b"\0\0\0\2\xff\xff", (LARGEST + 1).to_bytes(4, "big")],
)
def test_bytes_that_are_no_messages_are_refused(rubbish: bytes) -> None:
    with pytest.raises(ValueError):
        list(Frames().feed(rubbish))


def test_a_lease_arrives_as_it_was() -> None:
    sent = replace(lease("a"), args_json=Json('{"name":"Zoë"}'), flags=Flag.SUSPECT | Flag.STARTED, crashes=2)
    (message,) = Frames().feed(pack({"lease": lease_facts(sent)}))
    heard = to_lease(message["lease"])
    assert heard == sent and heard.is_suspect and heard.args == {"name": "Zoë"}
