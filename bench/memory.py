"""Memory use of the control plane per extent and per aborted transaction, and of an agent with many consumers.

All of it is counted: the state, its segment table in the most expensive case (each extent alone in its object), the
embedded agent's view, and a process that takes a snapshot at the same time. Bytes are resident memory beyond that of a
server with an empty log.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.clients import Threads, fill
from bench.fetches import Fetcher
from bench.figures import GIBIBYTE, Better, Figure, Row, Run
from bench.lacuna import Lacuna
from bench.meter import process_tree, resident_bytes
from bench.prepared import Prepared
from bench.reading import TUNED, consume, end_offsets
from bench.rounds import Bench
from bench.target import PARTITIONS, Topics

SERVER = Figure("server bytes", Better.LESS)
SNAPSHOT_PROCESS = Figure("snapshot process bytes", Better.LESS)
TOGETHER = Figure("bytes together", Better.LESS)
RESIDENT = Figure("resident MiB", Better.LESS)
CONSUMERS = 8
#: Keeps the eight consumers' queues small, since all of them are in this process. This process's memory is not
#: measured.
SMALL_QUEUE = {"queued.max.messages.kbytes": 16_384}
MEBIBYTE = 1 << 20
AN_EXTENT = "control plane, an extent"
IN_A_ROW = "control plane, an aborted transaction, in a row"
BETWEEN = "control plane, an aborted transaction and the committed one behind it"


@dataclass(frozen=True, slots=True)
class Amount:
    transactions: int
    read_bytes: int


AMOUNTS = {
    "smoke": Amount(3_000, 8 << 20),
    "quick": Amount(50_000, 256 << 20),
    "full": Amount(200_000, 4 << 30),
}


def memory(bench: Bench) -> Iterator[Row]:
    """Yields rows with a single run each, which is enough because other load on the machine does not affect memory."""
    amount = AMOUNTS[bench.size.name]
    in_a_row = _control_plane(amount.transactions, one_in=1)
    between = _control_plane(amount.transactions, one_in=2)
    yield Row(AN_EXTENT, "lacuna", [{figure: value / 2 for figure, value in between.items()}])
    yield Row(IN_A_ROW, "lacuna", [in_a_row])
    yield Row(BETWEEN, "lacuna", [between])
    yield _agent(bench, amount.read_bytes)


def _control_plane(transactions: int, *, one_in: int) -> Run:
    """Measures bytes per single-extent aborted transaction. If `one_in` is 2, each is followed by a committed one."""
    with Prepared() as server:
        topic = Topics(server).create("memory")
        watch_all(server, topic)
        empty, empty_process = server.resident(), server.snapshot()
        server.prolong(topic, transactions, one_in=one_in)
        watch_all(server, topic)
        held = server.resident()
        server.settle()
        server.prolong(topic, PARTITIONS)
        process = server.snapshot()
    by_server = (held - empty) / transactions
    by_process = (process - empty_process) / transactions
    return {SERVER: by_server, SNAPSHOT_PROCESS: by_process, TOGETHER: by_server + by_process}


def watch_all(server: Lacuna, topic: str) -> list[int]:
    """Makes the agent load its view of every partition. Returns their high watermarks."""
    ends = end_offsets(server, topic)
    with Fetcher(server.bootstrap) as fetcher:  # at the ends, so that no object is read
        fetcher.fetch(topic, dict(enumerate(ends)))
    return ends


def _agent(bench: Bench, size: int) -> Row:
    """Measures the server's peak memory while several consumers each read everything after a restart."""
    records = size // 1024
    with Lacuna() as server:
        topic = Topics(server).create("memory")
        fill(server, topic, records)
        Bench([server], bench.size).rest()
        server.forget()

        def read(_number: int) -> None:
            consume(server, topic, **{**TUNED, **SMALL_QUEUE}).check(records)

        with Threads(read, CONSUMERS):
            pass
        peak = resident_bytes(process_tree(server.pids), peak=True)
    work = f"{CONSUMERS} consumers, each of {size / GIBIBYTE:.3g} GiB"
    return Row(work, "lacuna", [{RESIDENT: peak / MEBIBYTE}])
