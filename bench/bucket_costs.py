"""The contents and cost of a bucket once merging has moved the hot segments there: a part of the section `bucket`.

The journal is in PostgreSQL, so the bucket contains only records. The S3 service counts the requests of all processes.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench import BenchError
from bench.aborts import RECORDS, write
from bench.bucket_targets import S3, Places, Services
from bench.costs import (
    GETS,
    PUTS,
    READ_DOLLARS,
    TEBIBYTES,
    WRITE_DOLLARS,
    count_requests,
    load_prices,
)
from bench.counted_s3 import DELETE, GET, PUT
from bench.figures import Better, Figure, Row, Run
from bench.reading import TUNED, consume
from bench.target import Topics
from lacuna.operating.stores import open_checked

MERGE_GETS = Figure("GETs/GiB written", Better.LESS)
DELETES = Figure("DELETEs/GiB written", Better.LESS)
BYTES = Figure("bytes in the bucket / committed", Better.LESS)
SETTLED = Figure("s until all has moved", Better.LESS)
ABORTED_SHARE: Final = 50
SETTLE_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.25
#: The control plane's metric for bytes that wait in the journal.
HOT: Final = "lacuna_hot_bytes"


@dataclass(frozen=True, slots=True)
class Amount:
    """The duration and rate (in MiB/s) of the writes, and the numbers of agents, transactions and producers.

    One producer's flushes are small enough to be hot; those of several may not be. `options` are passed to the agents.
    """

    seconds: float
    rate: int
    agents: tuple[int, ...]
    transactions: int
    producers: tuple[int, ...]
    options: tuple[str, ...] = ()


AMOUNTS: Final = {
    "smoke": Amount(
        0.5,
        2,
        (1,),
        16,
        (1,),
        ("--set=merge.min.age.ms=10", "--set=merge.interval.ms=50"),
    ),
    "quick": Amount(10.0, 8, (1,), 400, (1, 4)),
    "full": Amount(60.0, 8, (1, 2, 4), 3_000, (1, 4)),
}


def steady_work_of(rate: int, agents: int) -> str:
    return f"steady {rate} MiB/s, {agents} agent{'s' if agents > 1 else ''}"


def aborted_work_of(transactions: int, producers: int) -> str:
    written = f"{transactions:,} transactions of {RECORDS}, {ABORTED_SHARE} % aborted"
    return f"{written}, {producers} producer{'s' if producers > 1 else ''}, once all has moved"


def steady_rate(services: Services, size: str) -> Iterator[Row]:
    amount = AMOUNTS[size]
    for agents in amount.agents:
        run = _steady(services, agents, amount)
        yield Row(steady_work_of(amount.rate, agents), S3, [run])


def _steady(services: Services, agents: int, amount: Amount) -> Run:
    """Writes at the given rate, waits until everything has moved to the bucket, and reads it from there."""
    prices = load_prices()
    settled: list[float] = []
    with Places(S3, services.database(), services.store_url(), agents, amount.options) as target:
        gibibytes, written, read = count_requests(
            target,
            services.service,
            amount.seconds,
            amount.rate,
            lambda: settled.append(settle(target)),
        )
    return {
        PUTS: written[PUT] / gibibytes,
        MERGE_GETS: written[GET] / gibibytes,
        DELETES: written[DELETE] / gibibytes,
        WRITE_DOLLARS: prices.of(written) / gibibytes * TEBIBYTES,
        GETS: read[GET] / gibibytes,
        READ_DOLLARS: prices.of(read) / gibibytes * TEBIBYTES,
        SETTLED: settled[0],
    }


def aborted_bytes(services: Services, size: str) -> Iterator[Row]:
    amount = AMOUNTS[size]
    for producers in amount.producers:
        work = aborted_work_of(amount.transactions, producers)
        yield Row(work, S3, [_aborted(services, producers, amount)])


def _aborted(services: Services, producers: int, amount: Amount) -> Run:
    """Aborts half of the transactions, and compares the bucket's size with the bytes that consumers receive."""
    url = services.store_url()
    with Places(S3, services.database(), url, 1, amount.options) as target:
        topic = Topics(target).create("aborted")
        committed = write(target, topic, amount.transactions, ABORTED_SHARE, producers)
        settled = settle(target)
        consumed = consume(target, topic, **TUNED)
        consumed.check(committed)
    store = open_checked(url)
    stored = sum(each.size for each in store.list())
    store.close()
    return {BYTES: stored / consumed.received_bytes, SETTLED: settled}


def settle(target: Places) -> float:
    """Waits until all records are in the bucket. Returns how many seconds this took. Raises BenchError."""
    started = time.monotonic()
    while left := target.metrics()[HOT]:
        if time.monotonic() - started > SETTLE_SECONDS:
            raise BenchError(
                f"{left:,.0f} bytes have still not moved to the bucket after {SETTLE_SECONDS:.0f} s"
            )
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - started
