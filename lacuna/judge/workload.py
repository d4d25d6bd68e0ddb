"""Runs the workload: creates topics, runs actors for a while, injects faults by running the user's commands, and
finally reads everything.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Final

from lacuna.base.errors import UserError
from lacuna.judge.actors import (
    MOST_OPERATIONS,
    USUAL,
    Actor,
    Chances,
    Committer,
    Prober,
    Reader,
    Sharer,
    World,
    found,
    read_once,
)
from lacuna.judge.checker import VISIBLE_WITHIN
from lacuna.judge.client import Api, Brokers, Client, Lost
from lacuna.judge.consumer import READ_COMMITTED, READ_UNCOMMITTED
from lacuna.judge.facts import Facts
from lacuna.judge.history import FAULT, HW, LSO, OK, STUCK, TXN, Delivery, History, Take
from lacuna.judge.producer import FAILURES
from lacuna.judge.writers import Lister, Loop, Sender, Writer, Writing
from lacuna.wire.messages import topics as wire
from lacuna.wire.messages.configs import (
    INCREMENTAL_ALTER_CONFIGS_REQUEST,
    INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from lacuna.wire.messages.share_records import SHARE_FETCH_REQUEST

#: The topics and their partitions.
_TOPICS: Final = {"log": 3, "in": 2, "out": 2, "list": 4, "share": 2}
_CREATE: Final = Api(wire.CREATE_TOPICS_REQUEST, wire.CREATE_TOPICS_RESPONSE, 5)
_DELETE: Final = Api(wire.DELETE_TOPICS_REQUEST, wire.DELETE_TOPICS_RESPONSE, 5)
_ALTER: Final = Api(INCREMENTAL_ALTER_CONFIGS_REQUEST, INCREMENTAL_ALTER_CONFIGS_RESPONSE, 1)
_GROUP_RESOURCE: Final = 32
_SET: Final = 0
_FEATURE: Final = "transaction.version"
_TV2: Final = 2
_SHARES: Final = "share.version"
#: How long brokers may take to become leaders of new topics, and how long one of the user's commands may run.
_READY_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 60.0
_WHOLE_BYTES: Final = 1 << 20
_MOST_SHARED: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of a workload. In `faults`, each fault has a command that causes it, and one that ends it half an
    `interval` later.
    """

    seconds: float
    name: str
    faults: Sequence[tuple[str, str]] = ()
    interval: float = 10.0
    patience: float = 8.0
    visible_within: float = VISIBLE_WITHIN
    keeps_topics: bool = False
    most_operations: int = MOST_OPERATIONS
    chances: Chances = USUAL


class Workload:
    """Executes a plan. `history` contains what has been observed, even if the run fails."""

    def __init__(
        self, brokers: Brokers, plan: Plan, random: Random, say: Callable[[str], None]
    ) -> None:
        begun = time.monotonic()
        self._plan = plan
        self._topics = {f"{plan.name}-{name}": count for name, count in _TOPICS.items()}
        self._say = say
        self._world = World(
            brokers,
            random,
            lambda: time.monotonic() - begun,
            lambda: time.time_ns() // 1_000_000,
            plan.patience,
            plan.chances,
            most_operations=plan.most_operations,
        )
        self._client = Client(brokers)
        self._has_shares = False
        #: Whether all actors have ended by themselves, so that the history contains everything that they did.
        self.is_whole = False

    @property
    def history(self) -> History:
        return self._world.history

    @property
    def failures(self) -> dict[str, int]:
        """The number of failed steps, by reason."""
        return dict(self._world.failures)

    def _places(self, *topics: str) -> list[str]:
        return [
            f"{self._plan.name}-{topic}/{index}"
            for topic in topics
            for index in range(_TOPICS[topic])
        ]

    async def run(self) -> None:
        """Create the topics, run the actors, read everything one last time, and delete the topics.

        Raises UserError if the cluster cannot be judged.
        """
        try:
            await self._set_up()
            await self._act()
            self.is_whole = True
            await self._look()
            if not any(each.kind == TXN and each.outcome == OK for each in self.history):
                raise UserError(f"no transaction was committed: {self._why()}")
        except FAILURES as error:
            raise UserError(f"the cluster could not be judged: {error}") from error
        finally:
            if not self._plan.keeps_topics:
                with suppress(*FAILURES, UserError):
                    await self._delete_topics()
            self._client.close()

    def _why(self) -> str:
        worst = sorted(self.failures.items(), key=lambda row: -row[1])
        return worst[0][0] if worst else "the workload was too short"

    async def _set_up(self) -> None:
        link = await self._client.link()
        self._world.has_tv2 = link.features.get(_FEATURE, 0) >= _TV2
        is_served = SHARE_FETCH_REQUEST.api_key in link.versions
        self._has_shares = is_served and link.features.get(_SHARES, 0) >= 1
        request = wire.CreateTopicsRequest(
            [wire.CreatableTopic(name, count, -1) for name, count in self._topics.items()]
        )
        metadata = await self._client.metadata([])
        answer = await self._client.ask(metadata.controller_id, _CREATE, request)
        for each in answer.topics:
            if each.error_code:
                raise UserError(
                    f"topic {each.name} could not be created: {each.error_message or each.error_code}"
                )
        await self._await_leaders()
        if self._has_shares:
            await self._configure_group()

    async def _await_leaders(self) -> None:
        deadline = self._world.now() + _READY_SECONDS
        while True:
            with suppress(Lost):
                metadata = await self._client.metadata(list(self._topics))
                if all(
                    topic.partitions and all(each.leader_id >= 0 for each in topic.partitions)
                    for topic in metadata.topics
                ):
                    return
            if self._world.now() > deadline:
                raise UserError(
                    "some partitions have no leader: check that the brokers are running"
                )
            await asyncio.sleep(0.1)

    @property
    def _share_group(self) -> str:
        return f"{self._plan.name}-shared"

    async def _configure_group(self) -> None:
        """Let the share group read committed records from the start, or omit share groups if that is not permitted."""
        configs = [
            AlterableConfig("share.auto.offset.reset", _SET, "earliest"),
            AlterableConfig("share.isolation.level", _SET, "read_committed"),
        ]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(_GROUP_RESOURCE, self._share_group, configs)]
        )
        answer = await self._client.ask(-1, _ALTER, request)
        errors = [each.error_message for each in answer.responses if each.error_code]
        if errors:
            self._has_shares = False
            self._say(f"share groups are not tested: {errors[0]}")

    async def _delete_topics(self) -> None:
        names = list(self._topics)
        request = wire.DeleteTopicsRequest(
            [wire.DeleteTopicState(name) for name in names], names, timeout_ms=10_000
        )
        metadata = await self._client.metadata([])
        await self._client.ask(metadata.controller_id, _DELETE, request)

    def _actors(self) -> list[Actor]:
        world, name = self._world, self._plan.name
        versions = (1, 2) if world.has_tv2 else (1, 1)
        log, lists = self._places("log"), self._places("list")
        inputs, outputs = self._places("in"), self._places("out")
        actors: list[Actor] = [
            Prober(world, "prober", self._places(*_TOPICS)),
            Reader(world, "committed", READ_COMMITTED, self._places(*_TOPICS)),
            Reader(world, "uncommitted", READ_UNCOMMITTED, self._places(*_TOPICS)),
            Sender(world, "sender", [*log, *inputs, *self._places("share")]),
            Committer(world, "committer", f"{name}-plain", log[0]),
        ]
        for number, version in enumerate((*versions, *versions)):
            writer = f"writer{number}"
            wide = [*log, *inputs, *self._places("share")] if number > 1 else log
            actors.append(Writer(world, writer, f"{name}-{writer}", version, wide))
        for number, version in enumerate(versions):
            group, identity = f"{name}-billing{number}", f"{name}-loop{number}"
            ends = inputs[number], outputs[number]
            actors += [
                Loop(world, f"loop{number}{side}", identity, version, group, *ends) for side in "ab"
            ]
            group, identity = f"{name}-ledger{number}", f"{name}-list{number}"
            # Each pair has its own lists, since only producers with the same id exclude each other.
            mine = lists[:2] if number == 0 else lists[2:]
            actors += [
                Lister(world, f"list{number}{side}", identity, version, group, mine)
                for side in "ab"
            ]
        return [*actors, *self._sharers()]

    def _sharers(self) -> list[Sharer]:
        if not self._has_shares:
            return []
        topic = f"{self._plan.name}-share"
        return [Sharer(self._world, f"sharer{side}", self._share_group, topic) for side in "ab"]

    async def _act(self) -> None:
        self._world.until = self._world.now() + self._plan.seconds
        ended = asyncio.Event()
        faults = asyncio.create_task(self._inflict(ended))
        try:
            async with asyncio.TaskGroup() as group:
                for actor in self._actors():
                    group.create_task(actor.run())
        except* UserError as errors:
            raise errors.exceptions[0] from None
        finally:
            ended.set()
            await faults

    async def _inflict(self, ended: asyncio.Event) -> None:
        """Inject faults until the actors have ended, and then end the last fault."""
        for fault, heal in cycle(self._plan.faults):
            if await _is_set(ended, self._plan.interval / 2):
                return
            await self._command(fault)
            await _is_set(ended, self._plan.interval / 2)
            if heal:
                await self._command(heal)

    async def _command(self, line: str) -> None:
        """Run one of the user's commands. A failure or a timeout is reported, but has no other effect."""
        start = self._world.now()
        process = await asyncio.create_subprocess_shell(
            line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_COMMAND_SECONDS):
                code = await process.wait()
            if code:
                self._say(f"`{line}` exited with status {code}")
        except TimeoutError:
            process.kill()
            await process.wait()
            self._say(f"`{line}` did not end within {_COMMAND_SECONDS:.0f} s")
        finally:
            Actor(self._world, "hook").record(FAULT, start, OK)

    async def _look(self) -> None:
        """End open transactions, wait until all are decided, and read everything under both isolation levels."""
        await self._await_leaders()
        self._world.patience = _READY_SECONDS
        auditor = Prober(self._world, "auditor", self._places(*_TOPICS))
        try:
            await self._end_open(auditor)
            for place in self._places(*_TOPICS):
                await self._look_at(auditor, place)
            groups = {(take.group, take.place) for each in self.history for take in each.of(Take)}
            for group, place in sorted(groups):
                await found(auditor, group, place)
            for sharer in self._sharers()[:1]:
                await self._drain(sharer)
        finally:
            auditor.client.close()

    async def _end_open(self, auditor: Actor) -> None:
        for identity in sorted(
            each for each in self._world.generations if each.startswith(self._plan.name)
        ):
            writing = Writing(self._world, auditor.name, identity, 1)
            try:
                await writing.begin()
            finally:
                writing.client.close()

    async def _look_at(self, auditor: Prober, place: str) -> None:
        deadline = self._world.now() + self._plan.visible_within + 1
        while await auditor.ask(place, LSO) < (end := await auditor.ask(place, HW)):
            if self._world.now() > deadline:
                return  # the checker sees records that are not visible in time
            await asyncio.sleep(0.1)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            position = 0
            while position < end:
                read = await read_once(auditor, place, position, isolation, _WHOLE_BYTES, 500)
                if read.end == position and self._world.now() > deadline:
                    auditor.record(STUCK, self._world.now(), OK, [read])
                    return
                position = read.end

    async def _drain(self, sharer: Sharer) -> None:
        """Acquire all of the share group's records. After a lost response, some may remain locked for a while."""
        seconds = max(
            (part.seconds for each in self.history for part in each.of(Delivery)), default=0.0
        )
        last = self._world.now()
        try:
            while self._world.now() <= last + seconds + _READY_SECONDS and not self._is_delivered():
                with suppress(*FAILURES):
                    if await sharer.take(_MOST_SHARED):
                        last = self._world.now()
                await asyncio.sleep(0.1)
        finally:
            await sharer.drop()

    def _is_delivered(self) -> bool:
        facts = Facts(self.history)
        delivered = {part.value for each in self.history for part in each.of(Delivery)}
        return all(
            value in delivered
            for place in self._places("share")
            for value in facts.truth[place].values()
            if facts.is_written(value)
        )


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
