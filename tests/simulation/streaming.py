"""Members of a streams group (KIP-1071), which repeatedly leave and rejoin, as those of `--roaming` do.

The group may not assign an active task that another member has not given up, expel a member that sends heartbeats in
time, let a member continue without sending it its epoch and tasks, or accept a heartbeat with an epoch that it never
issued. Its topology has a changelog, which an agent creates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import streams_groups as wire
from tests.simulation.groups import ConsumerMember, Roamer
from tests.simulation.kafka import GROUP_CONFIGS, Unanswered
from tests.simulation.memberships import REBALANCE_MS, Group

HEARTBEAT: Final = 88
SUBTOPOLOGY: Final = "0"
#: The share of heartbeats that follow a forged one, and how far its epoch is ahead.
FORGED: Final = 0.05
FORGED_BY: Final = 1_000
CONFIGS: Final = {
    "streams.initial.rebalance.delay.ms": "0",
    "streams.assignment.interval.ms": "0",
    "streams.num.standby.replicas": "1",
}


class StreamsGroup(Group):
    """A streams group whose tasks are the partitions of one topic."""

    def key(self, member_id: str, epoch: int) -> Hashable:
        """Identify a heartbeat as agents do when they answer it on their own."""
        return ("streams", self.name, member_id, epoch)


class StreamsMember(ConsumerMember):
    """Uses StreamsGroupHeartbeat. It holds its active tasks."""

    _standby: frozenset[int] = frozenset()

    async def _send(self) -> Any:
        if self.epoch > 0 and self.client.random.random() < FORGED:
            await self._forge()
        fields: dict[str, Any] = {}
        if not self.member_id:
            self.member_id = f"{self.client.random.getrandbits(128):032x}"
        if self.epoch == 0:
            fields = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "topology": self._topology(),
                "process_id": self.client.random.choice(("p", self.member_id)),
            }
        if self.epoch == 0 or self._tells_all:
            self._tells_all = False
            self._confirmed &= self.assigned  # from now on, the group may give the others away
            self._standby = frozenset() if self.epoch == 0 else self._standby
            tasks = () if self.epoch == 0 else self._owned()
            fields |= {
                "active_tasks": tasks,
                "standby_tasks": _task_ids(self._standby),
                "warmup_tasks": (),
            }
        return await self._ask(self.epoch, **fields)

    async def _ask(self, epoch: int, **fields: Any) -> Any:
        return await self.ask(
            HEARTBEAT,
            self._version,
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=epoch,
            **fields,
        )

    async def _forge(self) -> None:
        """Claim to have no tasks, in an epoch that the group never issued."""
        try:
            answer = await self._ask(
                self.epoch + FORGED_BY, active_tasks=(), standby_tasks=(), warmup_tasks=()
            )
        except Unanswered:
            return
        if answer.error_code == ErrorCode.NONE:
            self.group.forged(self)

    def _topology(self) -> wire.StreamsGroupHeartbeatRequestTopology:
        changelog = wire.TopicInfo(f"{self.topic}-changelog")
        reads = wire.StreamsGroupHeartbeatRequestSubtopology(
            SUBTOPOLOGY, source_topics=(self.topic,), state_changelog_topics=(changelog,)
        )
        return wire.StreamsGroupHeartbeatRequestTopology(subtopologies=(reads,))

    def _owned(self) -> tuple[object, ...]:
        return _task_ids(self.assigned)

    def _take(self, answer: Any) -> None:
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        self.metadata = (self.epoch, self.member_id)
        if answer.active_tasks is not None:
            target, standby = _numbers(answer.active_tasks), _numbers(answer.standby_tasks)
            self.group.given(self, target - self.target)
            self._is_owing |= not (self.target <= target and self._standby <= standby)
            # Unlike active tasks, which wait for `ready`, standby tasks change at once.
            self._tells_all |= standby != self._standby
            self.target, self._standby = target, standby
        self._joined.set()


def _task_ids(numbers: frozenset[int]) -> tuple[wire.TaskIds, ...]:
    return (wire.TaskIds(SUBTOPOLOGY, tuple(sorted(numbers))),) if numbers else ()


def _numbers(rows: Iterable[wire.TaskIds]) -> frozenset[int]:
    return frozenset(each for row in rows for each in row.partitions)


class Streamer(Roamer):
    """A member that applies its tasks, and repeatedly leaves the group."""

    async def run(self) -> None:
        """Roam forever, in parallel with the heartbeats."""
        await self._member.client.configure(GROUP_CONFIGS, self._member.group.name, CONFIGS)
        await super().run()
