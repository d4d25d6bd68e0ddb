"""What a Fetch and a transaction cost the server as something else grows, such as the number of partitions or
connections.

The figures are CPU microseconds per request, for all server processes. A rate would only show how much CPU time the
clients, on the same two cores, leave unused. The last rows are for the state machine alone, in this process.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from bench.clients import fill, flush, producer
from bench.fetches import Fetcher
from bench.figures import Better, Figure, Row, Run
from bench.lacuna import Lacuna, LacunaGrpc
from bench.meter import Meter
from bench.plane import STEPS, Plane, small_transactions
from bench.prepared import Prepared
from bench.reading import end_offsets
from bench.rounds import Bench
from bench.target import PARTITIONS, TIMEOUT_SECONDS, Topics
from bench.transactions import transact
from lacuna.agent.fetch.plan import plan_fetch
from lacuna.controlplane.client.views import PartitionView

FETCH_CPU = Figure("server CPU µs/fetch", Better.LESS)
TRANSACTION_CPU = Figure("server CPU µs/transaction", Better.LESS)
STEP = {step: Figure(f"{step} µs", Better.LESS) for step in STEPS}
ALL_STEPS = Figure("all steps µs", Better.LESS)

WORKERS, AGENTS, TOPIC, CONNECTIONS, EXTENTS = (
    "workers",
    "agents",
    "partitions of the topic",
    "connections",
    "extents a partition",
)
PLAN = "plan of 1 MiB"
PLAN_BYTES = 1 << 20
PLANS = 200
PLAN_TIME = {place: Figure(f"{place} µs", Better.LESS) for place in ("start", "middle", "end")}
WARM_UPS = 20
PARTS = 5
COMMANDS = ("AddPartitionsToTxn", "CommitSegment, 4", "EndTxn, commit", "EndTxn, abort")


@dataclass(frozen=True, slots=True)
class Amount:
    """The seconds for each load, the sizes of each kind, and the numbers of extents for the state machine."""

    seconds: float
    sizes: dict[str, tuple[int, ...]]
    extents: tuple[int, ...]


AMOUNTS = {
    "smoke": Amount(0.3, {WORKERS: (1,), CONNECTIONS: (1, 10), EXTENTS: (10, 100)}, (10, 100)),
    "quick": Amount(
        1.0,
        {WORKERS: (1, 2), TOPIC: (1, 100), CONNECTIONS: (1, 100), EXTENTS: (10, 1_000)},
        (10, 1_000, 10_000),
    ),
    "full": Amount(
        4.0,
        {
            WORKERS: (1, 2, 4),
            AGENTS: (1, 2),
            TOPIC: (1, 100, 1_000),
            CONNECTIONS: (1, 100, 1_000),
            EXTENTS: (10, 1_000, 10_000),
        },
        (10, 1_000, 10_000, 250_000),
    ),
}


def work_of(kind: str, size: int) -> str:
    return f"{size:,} {kind}"


def step_work_of(command: str, extents: int) -> str:
    return f"{command}, {extents:,} extents a partition"


def scale(bench: Bench) -> Iterator[Row]:
    """Yields a row for each size of each kind, and then rows for the state machine's commands as partitions grow."""
    amount = AMOUNTS[bench.size.name]
    for kind, sizes in amount.sizes.items():
        for size in sizes:
            run = _MEASURES[kind](bench, size, amount.seconds)
            yield Row(work_of(kind, size), "lacuna", [run])
    yield from _state_machine(amount.extents)


def _workers(bench: Bench, size: int, seconds: float) -> Run:
    with Lacuna([f"--workers={size}"]) as server:
        return _measure(bench, server, Topics(server).create("scale"), seconds)


def _agents(bench: Bench, size: int, seconds: float) -> Run:
    with LacunaGrpc(agents=size) as server:
        return _measure(bench, server, Topics(server).create("scale"), seconds)


def _partitions(bench: Bench, size: int, seconds: float) -> Run:
    """Measures with `size` partitions, each of which contains records and has been fetched once."""
    with Lacuna() as server:
        topic = Topics(server).create("scale", max(size, PARTITIONS))
        client = producer(server)
        for partition in range(size):
            client.produce(topic, b"record", partition=partition)
        flush(client)
        with Fetcher(server.bootstrap) as fetcher:
            fetcher.fetch(topic, dict.fromkeys(range(size), 0))
        return _measure(bench, server, topic, seconds)


def _connections(bench: Bench, size: int, seconds: float) -> Run:
    """Measures with `size` - 1 other open connections, each of which has sent one request."""
    with Lacuna() as server, ExitStack() as others:
        topic = Topics(server).create("scale")
        fill(server, topic, PARTITIONS)
        for _ in range(size - 1):
            others.enter_context(Fetcher(server.bootstrap)).fetch(topic, {0: 0})
        return _measure(bench, server, topic, seconds)


def _extents(bench: Bench, size: int, seconds: float) -> Run:
    """Measures with `size` extents per partition, half of them aborted. Almost none of their objects exist."""
    with Prepared() as server:
        topic = Topics(server).create("scale")
        server.prolong(topic, size * PARTITIONS // 2, one_in=2)
        server.settle()
        return _measure(bench, server, topic, seconds)


_MEASURES: dict[str, Callable[[Bench, int, float], Run]] = {
    WORKERS: _workers,
    AGENTS: _agents,
    TOPIC: _partitions,
    CONNECTIONS: _connections,
    EXTENTS: _extents,
}


def _measure(bench: Bench, server: Lacuna, topic: str, seconds: float) -> Run:
    """Measures transactions of 10 records over 4 partitions, and then single Fetches of the last one."""
    client = producer(server, transactional_id=f"{topic}-writer")
    client.init_transactions(TIMEOUT_SECONDS)
    for _ in range(WARM_UPS):
        transact(client, topic)
    Bench([server], bench.size).rest()
    transaction_cpu = _by_request(server, seconds, lambda: transact(client, topic))
    offset = end_offsets(server, topic)[0] - 1
    with Fetcher(server.bootstrap) as fetcher:

        def fetch() -> None:
            fetcher.fetch(topic, {0: max(0, offset - 1)})

        for _ in range(WARM_UPS):
            fetch()
        Bench([server], bench.size).rest()
        fetch_cpu = _by_request(server, seconds, fetch)
    return {TRANSACTION_CPU: transaction_cpu, FETCH_CPU: fetch_cpu}


def _by_request(server: Lacuna, seconds: float, request: Callable[[], object]) -> float:
    """Returns the server's CPU microseconds per request: the median of several parts, because of other load."""
    by_part = []
    for _ in range(PARTS):
        count = 0
        with Meter(server) as meter:
            end = time.perf_counter() + seconds / PARTS
            while time.perf_counter() < end:
                request()
                count += 1
        by_part.append(meter.server_cpu_seconds / count * 1e6)
    return median(by_part)


def _state_machine(sizes: Sequence[int]) -> Iterator[Row]:
    """Yields rows with the steps of a transaction over 4 watched partitions, by number of extents in each."""
    plane = Plane()
    topic_id = plane.create(PARTITIONS)
    views = [plane.watch(topic_id, partition) for partition in range(PARTITIONS)]
    producer_of = plane.producer("bench-steps")
    for size in sizes:
        plane.samples = None
        missing = (size - len(views[0].extents)) * PARTITIONS // 2
        for _ in small_transactions(plane, topic_id, PARTITIONS, missing, one_in=2):
            pass
        plane.samples = defaultdict(list)
        for number in range(2_000):
            plane.begin(producer_of, topic_id, range(PARTITIONS))
            plane.end(producer_of, committed=number % 2 == 0)
        for command in COMMANDS:
            run = {STEP[step]: value for step, value in plane.microseconds(command).items()}
            run[ALL_STEPS] = sum(run.values())
            yield Row(step_work_of(command, size), "lacuna", [run])
        yield Row(step_work_of(PLAN, size), "lacuna", [_plan_times(views[0])])


def _plan_times(view: PartitionView) -> Run:
    """Times the planning of read_committed fetches of 1 MiB at the start, in the middle, and at the end."""
    run: Run = {}
    end = view.last_stable_offset
    partition = (view.topic_id, view.partition)
    for place, offset in (("start", 0), ("middle", end // 2), ("end", end - 1)):
        started = time.perf_counter()
        for _ in range(PLANS):
            plan_fetch(view.extents, view.dead, offset, end, PLAN_BYTES, partition)
        run[PLAN_TIME[place]] = (time.perf_counter() - started) / PLANS * 1e6
    return run
