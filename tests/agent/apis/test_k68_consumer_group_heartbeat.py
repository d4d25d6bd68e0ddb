"""ConsumerGroupHeartbeat over the wire: every version, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.consumer_groups import HEARTBEAT, beat, running
from tests.messages import nested


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_at_every_version(version: int) -> None:
    """From v1 on, the client creates the id; before that, the coordinator can."""
    async with running() as run:
        answer = await beat(run.client, version, "", 0)
        if version == 0:
            assert (answer.error_code, answer.member_epoch) == (0, 1)
            assert answer.member_id
        else:
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert answer.error_message == "MemberId can't be empty."
            answer = await beat(run.client, version, "me", 0)
            assert answer.member_id == "me"
        assert answer.heartbeat_interval_ms == 5000
        (row,) = answer.assignment.topic_partitions
        assert row.partitions == (0, 1)
        again = await beat(run.client, version, answer.member_id, 1)
        assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)
        owned = (_row(version, row.topic_id, 0, 1),)
        told = await beat(run.client, version, answer.member_id, 1, topic_partitions=owned)
        assert told.error_code == 0
        left = await beat(run.client, version, answer.member_id, -1)
        assert (left.error_code, left.member_epoch) == (0, -1)


def _row(version: int, topic_id: Any, *partitions: int) -> Any:
    return nested(HEARTBEAT, version, "TopicPartitions", topic_id=topic_id, partitions=partitions)


async def test_an_empty_instance_id_is_none() -> None:
    async with running() as run:
        answer = await beat(run.client, 1, "me", 0, instance_id="")
        assert answer.error_code == ErrorCode.INVALID_REQUEST
