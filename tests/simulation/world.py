"""One simulated history: a cluster and its clients, drawn from a seed, their faults, and the questions at the end."""

from __future__ import annotations

import gc
import random
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from unittest import mock

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.runtime import RuntimeSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state import snapshot
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.state import Lease
from lacuna.controlplane.verbs import agents, housekeeping
from lacuna.logstore.segments.paths import InvalidPathError, parse_segment_key
from lacuna.pipeline.errors import PipelineError
from tests.messages import REQUESTS, make, nested
from tests.simulation import admins, compactor, eos, faults, groups, keyed, swaps
from tests.simulation.audits import audit
from tests.simulation.cluster import KAFKA_PORT, AgentHost, ControlPlaneHost, Host, Surroundings
from tests.simulation.consumers import LEASE_SECONDS, Consumer
from tests.simulation.faults import Fault
from tests.simulation.groups import ClassicMember, ConsumerMember, Group, Member
from tests.simulation.history import History, Place, Read
from tests.simulation.kafka import Client, KafkaError, Unanswered
from tests.simulation.loop import Process
from tests.simulation.producers import IdempotentProducer, PlainProducer, TransactionalProducer
from tests.simulation.trace import Trace
from tests.simulation.verifier import Verifier

#: Faults begin within this many simulated seconds.
FAULTY_SECONDS: Final = 20.0
#: Every client must be served again within this many seconds after the last fault has ended.
SERVED_WITHIN: Final = 30.0
#: When everything that was open must have ended, and all garbage be collected.
SETTLED_WITHIN: Final = 150.0
#: The grace of a collection, and after a lease. It is longer than a PUT can be late.
GRACE_MS: Final = 8_000
LEASE_MS: Final = int(LEASE_SECONDS * 1000)
#: The group of the exactly-once loops.
LOOP_GROUP: Final = "loop"

#: The partition in which only the verifier writes.
VERIFIED: Final = ("v", 0)

Main = Callable[[str, Client], Coroutine[Any, Any, None]]


class ClientHost(Host):
    """A machine on which clients run; a client that was killed is started again under a new name."""

    def __init__(self, world: World, name: str, main: Main) -> None:
        super().__init__(world.around, name)
        self._world = world
        self._main = main

    async def _serve(self, process: Process) -> None:
        client = Client(
            self.around.network,
            self._world.bootstrap,
            random.Random(self.random.random()),
            request_timeout=self.random.choice((2.0, 5.0, 12.0)),
            served=self._served,
            failed_over=self._failed_over,
        )
        await self._main(f"{self.name}.{self.starts}", client)

    def _served(self) -> None:
        self.progress += 1

    def _failed_over(self) -> None:
        self._world.history.counts["failovers seen by clients"] += 1

    async def _stop(self) -> None:
        """Clients are killed, never stopped."""


@dataclass(slots=True)
class Result:
    """What one simulation found."""

    seed: int
    violations: list[str]
    faults: list[Fault]
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    steps: int = 0


class World:
    """Everything of one seed. `without` leaves out faults by number."""

    def __init__(self, seed: int, without: Sequence[int] = ()) -> None:
        self.around = Surroundings(seed)
        self.loop = self.around.loop
        self.history = History(lambda: self.loop.time())
        draw = self.around.randomness("scenario")
        self.control = ControlPlaneHost(
            self.around,
            RuntimeSettings(snapshot_records=draw.choice((50, 500, 50_000))),
        )
        self.agents = [
            AgentHost(self.around, number) for number in range(1, draw.choice((1, 2, 2, 3)) + 1)
        ]
        self.bootstrap = [(agent.name, KAFKA_PORT) for agent in self.agents]
        self.places: list[Place] = [
            (topic, partition)
            for topic in ("a", "b")[: draw.choice((1, 2))]
            for partition in range(draw.choice((1, 2, 3)))
        ]
        self._all_places = [*self.places, VERIFIED]
        #: The positions of each group that reads the input of the exactly-once loops, and its partitions.
        self.groups: dict[str, eos.Positions] = {}
        self.loop_partitions: list[int] = []
        self.topics = admins.Topics()
        self.clients: list[ClientHost] = []
        self.jobs: list[compactor.JobHost] = []
        self.keys = keyed.Keys(self.history)
        self.keyed_places: list[Place] = []
        self._draw_clients(draw)
        self.hosts: dict[str, Host] = {
            each.name: each for each in [self.control, *self.agents, *self.clients, *self.jobs]
        }
        servers = [self.control.name, *(each.name for each in self.agents)]
        drawn = faults.draw(
            self.around.randomness("faults"),
            FAULTY_SECONDS,
            servers,
            [each.name for each in [*self.clients, *self.jobs]],
        )
        self.faults = [each for each in drawn if each.number not in without]

    def _draw_clients(self, draw: random.Random) -> None:
        has_zombie = draw.random() < 0.4
        for number in range(draw.choice((1, 2, 3))):
            is_alone = number > 0 or not has_zombie
            main = self._transactional(f"id-{number}", draw.random() < 0.5, is_alone=is_alone)
            self._add(f"txn-{number}", main)
        if has_zombie:
            # Two producers with one transactional id: each fences the other.
            self._add("zombie", self._transactional("id-0", draw.random() < 0.5, is_alone=False))
        for number in range(draw.choice((0, 1, 2))):
            self._add(f"idem-{number}", self._producer(IdempotentProducer))
        if draw.random() < 0.5:
            self._add("plain", self._producer(PlainProducer))
        self._add("verifier", self._verifier(draw.random() < 0.5))
        self._add("stubborn", self._consumer(0, self.bootstrap[0]))
        self._add("committed", self._consumer(1))
        self._add("uncommitted", self._consumer(0, wanders=draw.random() < 0.5))
        if draw.random() < 0.5:
            self._add_admin()
        if draw.random() < 0.5:
            for name in ("compactor", "other-compactor")[: draw.choice((1, 2, 2))]:
                self._add_job(name, compactor.compact)
            self._add_keyed(draw)
        if draw.random() < 0.4:
            self._add_job("slow-reader", compactor.read_slowly)
        if draw.random() < 0.6:
            self._add_loops(draw)

    def _add_job(self, name: str, job: compactor.Main) -> None:
        self.jobs.append(compactor.JobHost(self.around, name, self.history, job))

    def _add_keyed(self, draw: random.Random) -> None:
        history, keys = self.history, self.keys
        self.keyed_places = [(keyed.TOPIC, number) for number in range(draw.choice((1, 2)))]

        def transactional(name: str, client: Client) -> Coroutine[Any, Any, None]:
            producer = keyed.KeyedTransactionalProducer(
                name,
                "id-keyed",
                client,
                history,
                client.random,
                is_second=client.random.random() < 0.5,
            )
            producer.keys = keys
            return producer.run(self.keyed_places)

        def idempotent(name: str, client: Client) -> Coroutine[Any, Any, None]:
            producer = keyed.KeyedIdempotentProducer(name, client, history, client.random)
            producer.keys = keys
            return producer.run(self.keyed_places)

        self._add("keyed-txn", transactional)
        if draw.random() < 0.5:
            self._add("keyed-idem", idempotent)
        self._add(
            "keyed-reader",
            lambda name, client: keyed.KeyedConsumer(
                name, client, history, client.random, keys
            ).run(self.keyed_places),
        )

    def _add(self, name: str, main: Main) -> None:
        self.clients.append(ClientHost(self, name, main))

    def _add_loops(self, draw: random.Random) -> None:
        self.loop_partitions = list(range(draw.choice((1, 2, 4))))
        inputs: list[Place] = [(eos.INPUT, number) for number in self.loop_partitions]
        self._add(
            "input",
            lambda name, client: IdempotentProducer(name, client, self.history, client.random).run(
                inputs
            ),
        )
        # Members of both protocols in one group is what it is while it is upgraded.
        kinds = draw.choice(((ClassicMember,), (ConsumerMember,), (ClassicMember, ConsumerMember)))
        for number in range(draw.choice((1, 2, 3))):
            self._add_loop(f"loop-{number}", draw, draw.choice(kinds))
        if draw.random() < 0.5:
            self._add("committing", self._committing(draw.choice(kinds)))
        outputs: list[Place] = [(eos.OUTPUT, number) for number in self.loop_partitions]
        self._all_places += [*inputs, *outputs]

    def _add_loop(self, host: str, draw: random.Random, kind: type[Member]) -> None:
        is_second, is_static = draw.random() < 0.5, draw.random() < 0.3
        keeps_id = draw.random() < 0.7
        positions = self._positions(LOOP_GROUP)

        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            member = self._member(kind, positions, client, host if is_static else None)
            return eos.ExactlyOnceLoop(
                name,
                host if keeps_id else name,
                member,
                self.history,
                positions,
                is_second=is_second,
            ).run()

        self._add(host, main)

    def _committing(self, kind: type[Member]) -> Main:
        group = "committing"
        positions = self._positions(group)
        return lambda name, client: eos.CommittingConsumer(
            name, self._member(kind, positions, client, None), self.history, positions
        ).run()

    def _positions(self, name: str) -> eos.Positions:
        if name not in self.groups:
            group = Group(
                name,
                eos.INPUT,
                len(self.loop_partitions),
                self.history,
                is_timely=lambda: self.control.clock_ahead_ms == 0,
            )
            self.groups[name] = eos.Positions(group, self.history)
        return self.groups[name]

    def _member(
        self, kind: type[Member], positions: eos.Positions, client: Client, instance_id: str | None
    ) -> Member:
        # Shorter than the session, so that what one lost answer costs is not the member's place in the group.
        client.request_timeout = min(client.request_timeout, 5.0)
        return kind(positions.group, client, instance_id)

    def _add_admin(self) -> None:
        history = self.history
        history.expiring.add(admins.EXPIRING)
        self._add(
            "admin",
            lambda name, client: admins.Admin(
                name,
                client,
                history,
                client.random,
                self.topics,
                self.places,
                [keyed.TOPIC] if self.keyed_places else [],
            ).run(),
        )
        self._add(
            "temp-txn",
            lambda name, client: admins.TemporaryProducer(name, client, history, client.random).run(
                self.places
            ),
        )
        self._add(
            "temp-committed",
            lambda name, client: admins.TemporaryConsumer(
                name, client, history, client.random, 1
            ).run(),
        )

    def _transactional(self, transactional_id: str, is_second: bool, *, is_alone: bool) -> Main:
        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            producer = TransactionalProducer(
                name, transactional_id, client, self.history, client.random, is_second=is_second
            )
            producer.may_be_fenced = not is_alone
            return producer.run(self.places)

        return main

    def _verifier(self, is_second: bool) -> Main:
        return lambda name, client: Verifier(
            name, client, self.history, client.random, VERIFIED, is_second=is_second
        ).run([VERIFIED])

    def _producer(self, kind: type[IdempotentProducer] | type[PlainProducer]) -> Main:
        return lambda name, client: kind(name, client, self.history, client.random).run(self.places)

    def _consumer(
        self, isolation: int, address: tuple[str, int] | None = None, *, wanders: bool = False
    ) -> Main:
        """A consumer of all partitions; with an address, or if it wanders, it does not ask the leader."""

        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            consumer = Consumer(name, client, self.history, client.random, isolation)
            consumer.address = address
            consumer.wanders = wanders
            # Java's and librdkafka's wait for half a minute or longer.
            client.request_timeout = client.random.choice((5.0, 20.0))
            return consumer.run(self.places)

        return main

    # Running.

    def traced(self) -> tuple[Result, list[str]]:
        """Runs as `run` does; returns also the lines of the trace."""
        trace = self.around.network.trace = Trace(self.loop)
        with trace.of_logs():
            return self.run(), trace.lines

    def run(self) -> Result:
        """Runs the whole history and asks the checker's questions."""
        with (
            _in_one_thread(),
            _short_times(),
            swaps.watched(self.around.bucket.objects, self._cluster_id, self.history, keyed.TOPIC),
        ):
            try:
                self._run()
            except Exception:
                self.history.wrong(traceback.format_exc())
            finally:
                self.loop.end()
                gc.collect()
        counts = self.history.counts
        for host in [self.control, *self.agents]:
            counts["servers started again"] += host.starts - 1
        for transaction in self.history.transactions:
            counts[f"transactions {transaction.outcome}"] += 1
        for fault in self.faults:
            counts[f"fault: {fault.kind}"] += 1
        return Result(
            seed=self.around.seed,
            violations=self.history.violations,
            faults=self.faults,
            counts=counts,
            seconds=self.loop.time(),
            steps=self.loop.steps,
        )

    def _run(self) -> None:
        loop = self.loop
        self.control.start()
        for agent in self.agents:
            loop.call_in(loop.world, 0.05, agent.start)
        self._do(self._create_topics, 30.0, "create the topics")
        for client in [*self.clients, *self.jobs]:
            client.start()
        begin = loop.time()
        for fault in self.faults:
            loop.call_in(loop.world, fault.at, self._apply, fault)
        loop.run(begin + FAULTY_SECONDS)
        end = max([loop.time(), *(begin + each.at + each.lasts for each in self.faults)])
        loop.run(end)
        self.history.is_over = True
        self._run_until_served(end + SERVED_WITHIN)
        for client in self.clients:
            client.retire()
        self._end_jobs()
        self._look_at_the_end()
        for who, error in loop.unhandled:
            self.history.wrong(f"{who} raised {error}")

    def _cluster_id(self) -> str:
        return self.control.disk.cluster_id or ""

    def _end_jobs(self) -> None:
        for job in self.jobs:
            job.is_closing = True
        self._settle()
        for job in self.jobs:
            if not job.is_idle:
                self.history.wrong(f"{job.name} did not end within {SETTLED_WITHIN:g} s")
            job.retire()

    def _look_at_the_end(self) -> None:
        """Asks what can only be asked when nothing changes any more."""
        temporary = self._do(admins.places_at_the_end, 30.0, "look for topics") or []
        admins.check_topics(self.history, self.topics, temporary)
        committed = self._read_all(1, temporary)
        uncommitted = self._read_all(0, temporary)
        if committed is not None and uncommitted is not None:
            self.history.check(committed, uncommitted)
            self._check_groups(committed)
        if self.keyed_places:
            self._read_keyed()
        self._look_for_garbage()
        self._audit()

    def _apply(self, fault: Fault) -> None:
        self.around.tell(f"fault {fault}")
        faults.KINDS[fault.kind][0](self, fault)

    def _do(
        self, what: Callable[[Client], Coroutine[Any, Any, Any]], within: float, name: str
    ) -> Any:
        """Runs something as a client of its own; None, with a violation, if it takes longer."""
        process = self.loop.process(name)
        client = Client(self.around.network, self.bootstrap, self.around.randomness(name))
        task = process.start(what(client))
        limit = self.loop.time() + within
        while not task.done() and self.loop.time() < limit:
            self.loop.run(min(limit, self.loop.time() + 0.1))
        if not task.done():
            self.history.wrong(f"it took longer than {within:g} s to {name}")
            return None
        process.kill()
        return task.result()

    async def _create_topics(self, client: Client) -> None:
        counts = Counter(topic for topic, _ in [*self._all_places, *self.keyed_places])
        configs = tuple(
            nested(19, 5, "CreatableTopicConfig", name=name, value=value)
            for name, value in keyed.CONFIGS.items()
        )
        topics = tuple(
            nested(
                19,
                5,
                "CreatableTopic",
                name=name,
                num_partitions=count,
                replication_factor=1,
                configs=configs if name == keyed.TOPIC else (),
            )
            for name, count in sorted(counts.items())
        )
        request = make(REQUESTS[19].body, 5, topics=topics, timeout_ms=10_000)
        while True:
            try:
                answer = await client.ask_any(19, 5, request)
            except Unanswered:
                await client.pause()
                continue
            codes = {each.error_code for each in answer.topics}
            if codes <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                return
            await client.pause()

    def _run_until_served(self, limit: float) -> None:
        """Runs until every client has got something done after the last fault."""
        for client in self.clients:
            client.progress = 0
        loop = self.loop
        while any(client.progress == 0 for client in self.clients) and loop.time() < limit:
            loop.run(min(limit, loop.time() + 0.5))
        for client in self.clients:
            if client.progress == 0:
                self.history.wrong(
                    f"{client.name} was not served within {SERVED_WITHIN:g} s after the last fault"
                )

    def _settle(self) -> None:
        """Runs until no transaction is open and nothing waits to be collected."""
        limit = self.loop.time() + SETTLED_WITHIN
        while not self._is_settled():
            self.loop.run(self.loop.time() + 1.0)
            if self.loop.time() > limit:
                self.history.wrong(
                    f"a transaction is open, or something is not collected, {SETTLED_WITHIN:g} s later"
                )
                return

    def _is_settled(self) -> bool:
        state = self.control.state()
        return (
            not state.segments.replaced
            and not state.ended_leases
            and all(job.is_idle for job in self.jobs)
            and all(
                each.last_stable_offset == each.high_watermark for each in state.partitions.values()
            )
        )

    def _check_groups(self, committed: dict[Place, Read]) -> None:
        partitions = self.loop_partitions
        for group, positions in self.groups.items():
            found = self._do(
                partial(eos.positions_at_the_end, positions=positions, partitions=partitions),
                30.0,
                f"fetch the offsets of {group}",
            )
            if group == LOOP_GROUP and found is not None:
                eos.check_loop(self.history, found, committed)

    def _read_all(self, isolation: int, temporary: Sequence[Place]) -> dict[Place, Read] | None:
        async def read(client: Client) -> dict[Place, Read]:
            name = ("uncommitted", "committed")[isolation]
            consumer = Consumer(
                f"the last {name} reader", client, self.history, client.random, isolation
            )
            found = {}
            for place in [*self._all_places, *temporary]:
                while place not in found:
                    try:
                        found[place] = await consumer.read_all(place)
                    except Unanswered:
                        await client.pause()
            return found

        try:
            found: dict[Place, Read] | None = self._do(
                read, 60.0, f"read everything at isolation {isolation}"
            )
        except KafkaError as error:
            self.history.wrong(f"the last reader failed: {error}")
            return None
        return found

    def _read_keyed(self) -> None:
        async def read(client: Client) -> None:
            await keyed.read_at_the_end(client, self.history, self.keys, self.keyed_places)

        self._do(read, 60.0, "read the keyed topic")

    def _audit(self) -> None:
        try:
            findings = audit(self.around)
        except (PipelineError, ControlPlaneUnavailable) as error:
            self.history.wrong(f"the audit failed: {error}")
            return
        for finding in findings:
            self.history.wrong(f"the audit found {finding}")

    def _look_for_garbage(self) -> None:
        state = self.control.state()
        for partition in state.partitions.values():
            if partition.extents.first_ending_after(partition.log_start_offset):
                self.history.wrong(
                    f"an extent of partition {partition.key} lies below its log's start and is kept"
                )
        for info in self.around.bucket.objects.list():
            try:
                _, segment = parse_segment_key(info.key)
            except InvalidPathError:
                continue  # the marker
            key = (segment.lease_id, segment.sequence)
            # A lease that ended just now has not been swept yet.
            has_owner = key in state.segments or key[0] in state.leases
            if not has_owner and key[0] not in state.ended_leases:
                self.history.wrong(f"{info.key} is in the bucket and nobody owns it")


@contextmanager
def _short_times() -> Iterator[None]:
    """Shortens what the product waits for, so that a short history has all of it."""
    with (
        mock.patch.object(housekeeping, "COLLECTION_GRACE_MS", GRACE_MS),
        mock.patch.object(agents, "LEASE_DURATION_MS", LEASE_MS),
        mock.patch.object(snapshot, "LEASE_DURATION_MS", LEASE_MS),
        mock.patch.object(Lease.__init__, "__defaults__", (LEASE_MS,)),
        mock.patch.dict(GroupSettings.__init__.__kwdefaults__, **groups.SETTINGS),
    ):
        yield


@contextmanager
def _in_one_thread() -> Iterator[None]:
    """Has every executor do its work at once: a thread would run in real time."""

    def submit(
        _: ThreadPoolExecutor, func: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(func(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    with mock.patch.object(ThreadPoolExecutor, "submit", submit):
        yield
