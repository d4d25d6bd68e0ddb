"""Limits that no change to Lacuna can move, and how close Lacuna comes to them.

A limit applies to one figure of one piece of work, in the figure's unit. It is derived from a measurement in the same
run: the speed of disk and memory (bench/machine.py), the client's CPU time for the work, the same work on `bare`, which
does nothing but answer, or, for aborted records, reading the same number of records from a log in which none are
aborted. If several limits have been measured, the nearest one is used. No limit is known for work that is not listed
here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench import machine, throughput
from bench.aborts import LZ4_SHARES
from bench.aborts import work_of as aborted
from bench.clients import RECORD_BYTES
from bench.figures import BUSIEST, KILO_RECORDS, P50, THROUGHPUT, WIRE_BYTES, Better, Figure
from bench.latency import WORK as END_TO_END
from bench.results import Results
from bench.rounds import FULL, QUICK, SMOKE
from bench.sections import BARE, LACUNA
from bench.tiny import PRODUCE, READ, READ_AGAIN, REQUESTS
from bench.transactions import TRANSACTIONS
from bench.transactions import work_of as transactions_by

#: A transaction of one producer waits for these steps, one after another: adding the partitions, the segment, its
#: commit, and the outcome.
SYNCS_OF_A_TRANSACTION = 4
#: A record can be read after these steps: the segment, and its commit.
SYNCS_OF_A_RECORD = 2
#: A server copies each byte this many times: from the page cache, and to the socket.
COPIES_OF_A_READ = 2


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on a figure: its name, how it is measured, and its value, or None if it was not measured."""

    work: str
    figure: Figure
    name: str
    how: str
    value: Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class End:
    """A limit, its value, and Lacuna's median, in the unit of the figure."""

    limit: Limit
    value: float
    lacuna: float

    @property
    def ratio(self) -> float:
        """Lacuna's median divided by the limit: at most 1 if more is better, at least 1 if less is."""
        return self.lacuna / self.value

    def is_nearer(self, other: "End") -> bool:
        """Whether this limit leaves less room than another one for the same figure."""
        if self.limit.figure.better is Better.MORE:
            return self.value < other.value
        return self.value > other.value


def ends(results: Results, limits: Iterable[Limit] | None = None) -> list[End]:
    """Returns the nearest of the limits (by default `LIMITS`) for each measured figure, in order."""
    nearest: dict[tuple[str, Figure], End] = {}
    for limit in LIMITS if limits is None else limits:
        lacuna = results.median(limit.work, LACUNA, limit.figure)
        value = limit.value(results)
        if lacuna is None or not value:
            continue
        place, end = (limit.work, limit.figure), End(limit, value, lacuna)
        if place not in nearest or end.is_nearer(nearest[place]):
            nearest[place] = end
    return list(nearest.values())


def _client(work: str, figure: Figure) -> Limit:
    """Assumes a client that never waits. Uses the best rate, because librdkafka also uses CPU while it waits."""

    def value(results: Results) -> float | None:
        rows = (row for rows in results.sections.values() for row in rows if row.work == work)
        found = [row.spreads() for row in rows]
        rates = [
            100 * each[figure].median / each[BUSIEST].median
            for each in found
            if figure in each and BUSIEST in each and each[BUSIEST].median
        ]
        return max(rates, default=None)

    how = "its CPU time with the least demanding server"
    return Limit(work, figure, "the client's busiest thread", how, value)


def _bare(work: str, figure: Figure) -> Limit:
    return Limit(
        work,
        figure,
        "the clients, the sockets, and Python",
        f"the same on `{BARE}`, which only answers",
        lambda results: results.median(work, BARE, figure),
    )


def _clean(share: int, codec: str) -> Limit:
    clean = aborted(0, codec)
    return Limit(
        aborted(share, codec),
        KILO_RECORDS,
        "the read without aborted records",
        f"{clean}, on {LACUNA}",
        lambda results: results.median(clean, LACUNA, KILO_RECORDS),
    )


def _speed(results: Results, name: str) -> float | None:
    """Returns a speed from bench/machine.py. Older results do not store speeds as numbers."""
    speeds: dict[str, float] = results.facts.get("speeds", {})
    return speeds.get(name)


def _bytes_of_a_record(results: Results, codec: str) -> float | None:
    if codec == "none":
        return RECORD_BYTES
    return results.median(aborted(0, codec), LACUNA, WIRE_BYTES)


def _disk(codec: str) -> Limit:
    def value(results: Results) -> float | None:
        speed = _speed(results, machine.DISK)
        size = _bytes_of_a_record(results, codec)
        return speed * RECORD_BYTES / size if speed and size else None

    how = "a sequential write of the same number of bytes with one fsync, before the run"
    return Limit(throughput.work_of(throughput.PRODUCE, codec), THROUGHPUT, "the disk", how, value)


def _memory(work: str) -> Limit:
    def value(results: Results) -> float | None:
        speed = _speed(results, machine.COPY)
        return speed * 1000 / COPIES_OF_A_READ if speed else None

    how = f"{COPIES_OF_A_READ} copies of each byte in the server, before the run"
    return Limit(work, THROUGHPUT, "copying memory", how, value)


def _throughput() -> Iterator[Limit]:
    for codec in throughput.CODECS:
        produce = throughput.work_of(throughput.PRODUCE, codec)
        yield _disk(codec)
        yield _client(produce, THROUGHPUT)
        for work in (throughput.READ, throughput.READ_TUNED):
            read = throughput.work_of(work, codec)
            yield _client(read, THROUGHPUT)
            if codec == "none":
                yield _memory(read)


def _transactions() -> Iterator[Limit]:
    one, many = transactions_by(1), transactions_by(8)

    def value(results: Results) -> float | None:
        rate, sync_ms = results.median(one, BARE, TRANSACTIONS), _speed(results, machine.SYNC)
        if not rate or not sync_ms:
            return None
        return 1 / (1 / rate + SYNCS_OF_A_TRANSACTION * sync_ms / 1000)

    name = f"the client, plus {SYNCS_OF_A_TRANSACTION} consecutive syncs"
    how = f"the same on `{BARE}`, plus {SYNCS_OF_A_TRANSACTION} × fdatasync before the run"
    yield Limit(one, TRANSACTIONS, name, how, value)
    yield _bare(many, TRANSACTIONS)


def _aborts() -> Iterator[Limit]:
    shares = sorted({share for size in (SMOKE, QUICK, FULL) for share in size.aborted_shares})
    for codec, of_codec in (("none", shares), ("lz4", LZ4_SHARES)):
        for share in of_codec:
            yield _client(aborted(share, codec), KILO_RECORDS)
            if share:
                yield _clean(share, codec)


def _tiny() -> Iterator[Limit]:
    yield _client(READ, KILO_RECORDS)
    yield _client(READ_AGAIN, KILO_RECORDS)
    yield _bare(PRODUCE, REQUESTS)
    yield _client(PRODUCE, REQUESTS)


def _latency() -> Iterator[Limit]:
    def value(results: Results) -> float | None:
        bare_ms, sync_ms = results.median(END_TO_END, BARE, P50), _speed(results, machine.SYNC)
        return bare_ms + SYNCS_OF_A_RECORD * sync_ms if bare_ms and sync_ms else None

    name = f"the clients, plus {SYNCS_OF_A_RECORD} consecutive syncs"
    how = f"the same on `{BARE}`, plus {SYNCS_OF_A_RECORD} × fdatasync before the run"
    yield Limit(END_TO_END, P50, name, how, value)


LIMITS: tuple[Limit, ...] = (*_throughput(), *_transactions(), *_aborts(), *_tiny(), *_latency())
