"""An agent whose control plane returns the answers given by a test."""

from collections.abc import Callable
from typing import Any

from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from tests.agent.harness import TOPIC_ID, ScriptedControl, client_of, make_context, snapshot

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90


class Setup:
    def __init__(self, **answers: Reply | Callable[[Command], Reply]) -> None:
        self.control = ScriptedControl()
        topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=2)
        self.control.cluster.apply(snapshot(topic))
        self.control.answers.update(answers)
        self.context = make_context(self.control)

    async def call(self, version: int, asked: Any) -> Any:
        async with client_of(self.context) as client:
            return await client.call(version, asked)

    def commands(self, verb: str) -> list[Any]:
        return [getattr(call, verb) for call in self.control.calls if call.HasField(verb)]


def fences(first: int, version: int) -> int:
    """Return the error for a fenced producer: the newer one from version `first` on (KIP-588)."""
    return PRODUCER_FENCED if version >= first else INVALID_PRODUCER_EPOCH
