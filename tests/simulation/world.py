"""One simulated history: a cluster, its clients and their faults, drawn from a seed, and the final checks."""

from __future__ import annotations

import gc
import random
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from unittest import mock

from lacuna.controlplane import hot as plane_hot
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state import merging
from lacuna.controlplane.state import partition as partitions
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.state import Lease
from lacuna.controlplane.verbs import agents, housekeeping
from lacuna.logstore.objects.prices import AMAZON_S3
from lacuna.logstore.segments.hot import lease_of
from lacuna.logstore.segments.paths import InvalidPathError, parse_segment_key
from lacuna.pipeline.errors import PipelineError
from tests.messages import REQUESTS, make, nested
from tests.simulation import admins, eos, faults, groups, hot, importers, keyed, rewrites
from tests.simulation.audits import audit
from tests.simulation.cast import LOOP_GROUP, Cast
from tests.simulation.cluster import KAFKA_PORT, AgentHost, Host, Surroundings
from tests.simulation.consumers import LEASE_SECONDS, Consumer
from tests.simulation.faults import Fault
from tests.simulation.history import History, Place, Read
from tests.simulation.kafka import Client, KafkaError, Unanswered
from tests.simulation.memberships import Watch
from tests.simulation.planes import DISK, SHARED, addresses, draw_planes
from tests.simulation.trace import Trace

#: Every client must be served again within this many seconds after the last fault has ended.
SERVED_WITHIN: Final = 30.0
#: When everything that was open must have ended, and all garbage be collected.
SETTLED_WITHIN: Final = 150.0
#: When standbys must have replayed everything.
LEVEL_WITHIN: Final = 10.0
#: The grace of a collection, and after a lease. It is longer than a PUT can be late.
GRACE_MS: Final = 8_000
LEASE_MS: Final = int(LEASE_SECONDS * 1000)
#: How long a hot segment can be read after it was moved out. Many reads come later, and are then planned again.
HOT_GRACE_MS: Final = 100
#: How long no other agent plans a merge of the same partition. Many merges take longer, and are then too late.
MERGE_MS: Final = 20


@dataclass(frozen=True, slots=True)
class Form:
    """The size of a history, and its possible events."""

    name: str
    #: What the command line needs to replay it.
    option: str
    #: The journals, of which one is drawn.
    journals: Sequence[str]
    #: How many agents there are.
    agents: Sequence[int]
    draw_cast: Callable[[Cast, random.Random], None]
    #: Faults begin within this many simulated seconds. There are so many of them.
    faulty_seconds: float
    fault_counts: Sequence[int]
    kinds: Mapping[str, faults.Kind]


#: Everything there is.
WHOLE: Final = Form(
    name="whole",
    option="",
    journals=(DISK, *SHARED),
    agents=(1, 2, 2, 3),
    draw_cast=Cast.draw,
    faulty_seconds=20.0,
    fault_counts=(0, 2, 4, 8, 12, 20),
    kinds=faults.KINDS,
)


#: A small cluster in which a standby takes over again and again while another one leads.
TWO_LEADERS: Final = Form(
    name="two leaders",
    option="--two-leaders ",
    journals=SHARED,
    agents=(2,),
    draw_cast=Cast.draw_few,
    faulty_seconds=6.0,
    fault_counts=(3, 4, 5, 6),
    kinds=faults.AMONG_LEADERS,
)

#: A group of KIP-848 members that leave and join again and again, while answers to their heartbeats get lost.
ROAMING: Final = Form(
    name="roaming",
    option="--roaming ",
    journals=(DISK, *SHARED),
    agents=(1, 2),
    draw_cast=Cast.draw_roamers,
    faulty_seconds=6.0,
    fault_counts=(2, 3, 4, 5),
    kinds=faults.AMONG_MEMBERS,
)

#: A streams group whose members leave and join again and again.
STREAMING: Final = replace(
    ROAMING, name="streaming", option="--streaming ", draw_cast=Cast.draw_streamers
)

#: A share group whose members take records of transactions, half of which abort.
SHARING: Final = Form(
    name="sharing",
    option="--sharing ",
    journals=(DISK, *SHARED),
    agents=(1, 2),
    draw_cast=Cast.draw_sharers,
    faulty_seconds=10.0,
    fault_counts=(2, 3, 4, 6),
    kinds=faults.KINDS,
)

#: Two importers of one mirror that are killed again and again.
IMPORTING: Final = Form(
    name="importing",
    option="--importing ",
    journals=(DISK, *SHARED),
    agents=(1, 2),
    draw_cast=Cast.draw_importers,
    faulty_seconds=10.0,
    fault_counts=(4, 6, 8),
    kinds=faults.AMONG_IMPORTERS,
)

FORMS: Final = {
    form.name: form for form in (WHOLE, TWO_LEADERS, ROAMING, STREAMING, SHARING, IMPORTING)
}


@dataclass(slots=True)
class Result:
    """The findings of one simulation."""

    seed: int
    violations: list[str]
    faults: list[Fault]
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    steps: int = 0


class World:
    """The whole simulation of one seed. `without` omits faults by number."""

    def __init__(self, seed: int, without: Sequence[int] = (), form: Form = WHOLE) -> None:
        self.form = form
        self.around = Surroundings(seed)
        prices = self.around.randomness("prices").choice((None, AMAZON_S3))
        self.around.bucket.objects.metrics.prices = prices
        self.loop = self.around.loop
        self.history = History(lambda: self.loop.time())
        draw = self.around.randomness("scenario")
        settings = hot.draw_settings(self.around, draw.choice((50, 500, 50_000)))
        self.planes = draw_planes(self.around, settings, self.history, form.journals)
        self.around.controls = addresses(self.planes)
        self.agents = [
            AgentHost(self.around, number) for number in range(1, draw.choice(form.agents) + 1)
        ]
        bootstrap = [(agent.name, KAFKA_PORT) for agent in self.agents]
        self.watch = Watch(self.history, self._is_timely, lambda: self.planes.state())
        self.cast = Cast(self.around, self.history, bootstrap, self.watch)
        form.draw_cast(self.cast, draw)
        self._hosts: dict[str, Host] = {
            each.name: each
            for each in [*self.planes.servers(), *self.agents, *self.cast.clients, *self.cast.jobs]
        }
        machines = faults.Machines(
            planes=[each.name for each in self.planes.hosts],
            agents=[each.name for each in self.agents],
            clients=[each.name for each in [*self.cast.clients, *self.cast.jobs]],
        )
        randomness = self.around.randomness("faults")
        drawn = faults.draw(randomness, self.planes.journal, form, machines)
        self.faults = [each for each in drawn if each.number not in without]

    def _is_timely(self) -> bool:
        return all(host.clock_ahead_ms == 0 for host in self.planes.hosts)

    def host(self, name: str) -> Host:
        """Return the machine with this name, or the current leader's for `faults.LEADER`."""
        if name == faults.LEADER:
            return self.planes.leader() or self.planes.hosts[0]
        return self._hosts[name]

    # Running.

    def traced(self) -> tuple[Result, list[str]]:
        """Like `run`, but also returns the lines of the trace."""
        trace = self.around.network.trace = Trace(self.loop)
        with trace.of_logs():
            return self.run(), trace.lines

    def run(self) -> Result:
        """Run the whole history and the final checks."""
        with (
            _in_one_thread(),
            _short_times(),
            self.planes.in_place(),
            self.watch.of_agents(),
            rewrites.watched_merges(self.loop, self.history),
            hot.watched(self.around, self.history),
            rewrites.watched_swaps(
                self.around.bucket.objects,
                lambda: self.planes.cluster_id,
                self.history,
                keyed.TOPIC,
            ),
        ):
            try:
                self._run()
            except Exception:
                self.history.wrong(traceback.format_exc())
            finally:
                self.loop.end()
                gc.collect()
        counts = self.history.counts
        for host in [*self.planes.servers(), *self.agents]:
            counts["servers started again"] += host.starts - 1
        for shared in self.around.shared:
            counts["ranges read from another agent"] += shared.taken
            counts["ranges asked of another agent in vain"] += shared.missed
            counts["ranges refused to another agent"] += shared.refused
            counts["damaged ranges of shared reads"] += shared.damaged
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
        for server in self.planes.servers():
            server.start()
        for agent in self.agents:
            loop.call_in(loop.world, 0.05, agent.start)
        self._do(self._create_topics, 30.0, "create the topics")
        for client in [*self.cast.clients, *self.cast.jobs]:
            client.start()
        begin = loop.time()
        for fault in self.faults:
            loop.call_in(loop.world, fault.at, self._apply, fault)
        loop.run(begin + self.form.faulty_seconds)
        end = max([loop.time(), *(begin + each.at + each.lasts for each in self.faults)])
        loop.run(end)
        self.history.is_over = True
        self._run_until_served(end + SERVED_WITHIN)
        for client in self.cast.clients:
            client.retire()
        self._end_jobs()
        self._look_at_the_end()
        for who, error in loop.unhandled:
            self.history.wrong(f"{who} raised {error}")

    def _end_jobs(self) -> None:
        for job in self.cast.jobs:
            job.is_closing = True
        self._settle()
        for job in self.cast.jobs:
            if not job.is_idle:
                self.history.wrong(f"{job.name} did not end within {SETTLED_WITHIN:g} s")
            job.retire()

    def _look_at_the_end(self) -> None:
        """Check everything that requires an unchanging state."""
        temporary = self._do(admins.places_at_the_end, 30.0, "look for topics") or []
        admins.check_topics(self.history, self.cast.topics, temporary)
        committed = self._read_all(1, temporary)
        uncommitted = self._read_all(0, temporary)
        if committed is not None and uncommitted is not None:
            self.history.check(committed, uncommitted)
            self._check_groups(committed)
        if self.cast.keyed_places:
            self._read_keyed()
        if self.cast.deliveries is not None:
            self._do(self.cast.deliveries.read_letters, 60.0, "read the dead-letter queue")
        self._look_for_garbage()
        self._look_at_the_time()
        self._compare_standbys()
        self._audit()

    def _apply(self, fault: Fault) -> None:
        self.around.tell(f"fault {fault}")
        self.form.kinds[fault.kind].apply(self, fault)

    def _do(
        self, what: Callable[[Client], Coroutine[Any, Any, Any]], within: float, name: str
    ) -> Any:
        """Run something as a separate client. Reports a violation and returns None if it takes longer."""
        process = self.loop.process(name)
        client = Client(self.around.network, self.cast.bootstrap, self.around.randomness(name))
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
        counts = Counter(topic for topic, _ in [*self.cast.all_places, *self.cast.keyed_places])
        configs = {
            topic: tuple(
                nested(19, 5, "CreatableTopicConfig", name=name, value=value)
                for name, value in given.items()
            )
            for topic, given in (
                (keyed.TOPIC, keyed.CONFIGS),
                (importers.TOPIC, importers.CONFIGS),
            )
        }
        topics = tuple(
            nested(
                19,
                5,
                "CreatableTopic",
                name=name,
                num_partitions=count,
                replication_factor=1,
                configs=configs.get(name, ()),
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
        """Run until every client has made progress after the last fault."""
        for client in self.cast.clients:
            client.progress = 0
        loop = self.loop
        while any(client.progress == 0 for client in self.cast.clients) and loop.time() < limit:
            loop.run(min(limit, loop.time() + 0.5))
        for client in self.cast.clients:
            if client.progress == 0:
                self.history.wrong(
                    f"{client.name} was not served within {SERVED_WITHIN:g} s after the last fault"
                )

    def _settle(self) -> None:
        """Run until no transaction is open and nothing is waiting to be collected."""
        limit = self.loop.time() + SETTLED_WITHIN
        while not self._is_settled():
            self.loop.run(self.loop.time() + 1.0)
            if self.loop.time() > limit:
                self.history.wrong(
                    f"a transaction is open, or something is not collected, {SETTLED_WITHIN:g} s later"
                )
                return

    def _is_settled(self) -> bool:
        state = self.planes.state()
        return (
            state is not None
            and not state.segments.replaced
            and not state.ended_leases
            and not state.groups.dying
            and all(job.is_idle for job in self.cast.jobs)
            and all(
                each.last_stable_offset == each.high_watermark for each in state.partitions.values()
            )
        )

    def _check_groups(self, committed: dict[Place, Read]) -> None:
        partitions = self.cast.loop_partitions
        for group, positions in self.cast.groups.items():
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
            for place in [*self.cast.all_places, *temporary]:
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
            await keyed.read_at_the_end(
                client, self.history, self.cast.keys, self.cast.keyed_places
            )

        self._do(read, 60.0, "read the keyed topic")

    def _compare_standbys(self) -> None:
        limit = self.loop.time() + LEVEL_WITHIN
        while not self.planes.are_level() and self.loop.time() < limit:
            self.loop.run(self.loop.time() + 0.1)
        if not self.planes.are_level():
            self.history.wrong(f"standbys are behind {LEVEL_WITHIN:g} s after everything has ended")
        else:
            for name in self.planes.differing():
                self.history.wrong(
                    f"{name} has replayed the journal to another state than the leader's"
                )

    def _audit(self) -> None:
        try:
            findings = audit(self.around)
        except (PipelineError, ControlPlaneUnavailable) as error:
            self.history.wrong(f"the audit failed: {error}")
            return
        for finding in findings:
            self.history.wrong(f"the audit found {finding}")

    def _look_at_the_time(self) -> None:
        """Check that the time is ahead by at most a believable clock's error, and runs at most twice as fast."""
        state = self.planes.state()
        assert state is not None
        ahead_ms = state.clock_ms - self.loop.now_ms
        if ahead_ms > faults.AHEAD_MS + 1000 * self.loop.time():
            self.history.wrong(f"the control plane's time is {ahead_ms / 3_600_000:.0f} h ahead")

    def _look_for_garbage(self) -> None:
        state = self.planes.state()
        assert state is not None
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
            lease_id = lease_of(segment.lease_id)
            # A lease that ended just now has not been swept yet.
            has_owner = key in state.segments or lease_id in state.leases
            if not has_owner and lease_id not in state.ended_leases:
                self.history.wrong(f"{info.key} is in the bucket and nobody owns it")


@contextmanager
def _short_times() -> Iterator[None]:
    """Shorten the product's timeouts and batch sizes, so that a short history covers all of them."""
    with (
        mock.patch.object(housekeeping, "COLLECTION_GRACE_MS", GRACE_MS),
        mock.patch.object(partitions, "SHOWN_EXTENTS", 10),
        mock.patch.object(agents, "LEASE_DURATION_MS", LEASE_MS),
        mock.patch.object(merging, "_LIFETIME_MS", MERGE_MS),
        mock.patch.object(plane_hot, "GRACE_MS", HOT_GRACE_MS),
        mock.patch.object(Lease.__init__, "__defaults__", (LEASE_MS,)),
        mock.patch.dict(GroupSettings.__init__.__kwdefaults__, **groups.SETTINGS),
    ):
        yield


@contextmanager
def _in_one_thread() -> Iterator[None]:
    """Make every executor work immediately, because a thread would run in real time."""

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
