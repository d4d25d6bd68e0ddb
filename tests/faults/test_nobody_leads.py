"""Between two leaders: agents go on with what they know, for as long as it is trusted (S3, S7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import LEASE_DURATION_MS
from tests.clients.batch import batch
from tests.simulation.stage import Stage, staged

LEASE_SECONDS = LEASE_DURATION_MS / 1000


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2)


def test_s7_what_is_there_is_read_on_for_a_lease(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic()
    assert one.verdict(topic, batch([b"value"])) == "NONE"
    assert one.fetch(topic, 0)["error_code"] == 0
    stage.control.kill(back_after=2 * LEASE_SECONDS)
    killed = stage.loop.time()
    found = one.fetch(topic, 0)
    assert (found["error_code"], found["high_watermark"]) == (0, 1)
    assert found["records"]
    assert stage.loop.time() < killed + 0.1
    stage.advance(1.1 * LEASE_SECONDS)
    # Somebody may know more by now, so clients are to ask again later.
    assert ErrorCode(one.fetch(topic, 0)["error_code"]) is ErrorCode.KAFKA_STORAGE_ERROR
    stage.until(lambda: one.fetch(topic, 0)["error_code"] == 0)
