"""A million uncompacted aborted transactions: the cost of a restart, of metadata, and of fetching.

Each transaction is one batch in one of 4 partitions. In one arrangement, aborted transactions follow each other, so
their dead ranges are joined. In the other, each is followed by a committed one, so nothing is joined. The objects do
not exist, so the transactions cannot be read.
"""

import time
from collections.abc import Iterator
from statistics import median

from bench.fetches import Fetcher
from bench.figures import Better, Figure, Row, Run
from bench.memory import watch_all
from bench.prepared import Prepared
from bench.rounds import Bench
from bench.target import Topics

FROM_JOURNAL = Figure("restart from the journal s", Better.LESS)
FROM_SNAPSHOT = Figure("restart from a snapshot s", Better.LESS)
JOURNAL_BYTES = Figure("journal bytes/transaction", Better.LESS)
SNAPSHOT_BYTES = Figure("snapshot bytes/transaction", Better.LESS)
SERVER_BYTES = Figure("server bytes/transaction", Better.LESS)
FETCH_MS = {
    place: Figure(f"fetch ms, {place}", Better.LESS) for place in ("start", "middle", "end")
}
WIRE = {place: Figure(f"wire bytes, {place}", Better.LESS) for place in ("start", "middle", "end")}
AMOUNTS = {"smoke": 2_000, "quick": 50_000, "full": 1_000_000}
FETCHES = 9


def million(bench: Bench) -> Iterator[Row]:
    count = AMOUNTS[bench.size.name]
    yield Row(f"{count:,} aborted in a row", "lacuna", [_measure(count, one_in=1)])
    yield Row(f"{count:,} aborted between committed", "lacuna", [_measure(count, one_in=2)])


def _measure(count: int, *, one_in: int) -> Run:
    """Measures one arrangement. With committed transactions, no fetches are measured, because those cannot be read."""
    with Prepared() as server:
        topic = Topics(server).create("million")
        watch_all(server, topic)
        empty = server.resident()
        empty_seconds = server.start_seconds
        journal_bytes = server.prolong(topic, count, one_in=one_in)
        from_journal = server.start_seconds - empty_seconds
        ends = watch_all(server, topic)
        held = server.resident() - empty
        run: Run = {
            FROM_JOURNAL: from_journal,
            JOURNAL_BYTES: journal_bytes / count,
            SERVER_BYTES: held / count,
        }
        server.settle()
        server.snapshot()
        run[SNAPSHOT_BYTES] = server.snapshot_bytes() / count
        run[FROM_SNAPSHOT] = server.start_seconds - empty_seconds
        places = {"start": 0, "middle": ends[0] // 2, "end": ends[0] - 1}
        with Fetcher(server.bootstrap) as fetcher:
            for place, offset in places.items():
                if one_in == 1:
                    run.update(_fetch(fetcher, topic, place, offset))
    return run


def _fetch(fetcher: Fetcher, topic: str, place: str, offset: int) -> Run:
    """Fetches from one partition, and returns the response's time and size."""
    seconds = []
    for _ in range(FETCHES):
        started = time.perf_counter()
        answer = fetcher.fetch(topic, {0: offset})
        seconds.append(time.perf_counter() - started)
    return {FETCH_MS[place]: median(seconds) * 1000, WIRE[place]: answer.wire_bytes}
