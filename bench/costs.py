"""The cost of S3: requests per GiB written and read, and their price, by flush interval and number of agents.

The S3 service counts the requests (bench/counted_s3.py). A flush takes whatever has accumulated, so the number of
requests per GiB depends on the arrival rate. Records are therefore written at a fixed rate, which is part of the row's
name. Prices come from logstore/objects/prices.py, or from the file named by BENCH_PRICES.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clients import POOL, POOL_SIZE, RECORD_BYTES, Deliveries, flush, ready_producer
from bench.counted_s3 import GET, PUT, CountedS3, use_credentials
from bench.figures import GIBIBYTE, Better, Figure, Row, Run
from bench.lacuna import LacunaGrpc
from bench.reading import TUNED, consume
from bench.rounds import Bench
from bench.target import PARTITIONS, Topics
from lacuna.logstore.objects.prices import AMAZON_S3, Prices

PRICES_VARIABLE = "BENCH_PRICES"
PUTS = Figure("PUTs/GiB written", Better.LESS)
WRITE_DOLLARS = Figure("$/TiB written", Better.LESS)
GETS = Figure("GETs/GiB read", Better.LESS)
READ_DOLLARS = Figure("$/TiB read", Better.LESS)
DAY_DOLLARS = Figure("$/day of PUTs", Better.LESS)
TEBIBYTES = 1024
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Amount:
    """The duration and rate (in MiB/s) of the writes, the flush intervals (in ms), and the numbers of agents."""

    seconds: float
    rate: int
    intervals: tuple[int, ...]
    agents: tuple[int, ...]


AMOUNTS = {
    "smoke": Amount(1.0, 2, (250,), (1,)),
    "quick": Amount(4.0, 8, (100, 250, 1000), (1,)),
    "full": Amount(12.0, 8, (100, 250, 1000), (1, 2, 4)),
}


def load_prices() -> Prices:
    path = os.environ.get(PRICES_VARIABLE)
    return Prices.load(Path(path), AMAZON_S3) if path else AMAZON_S3


def work_of(interval_ms: int, agents: int, rate: int) -> str:
    plural = "s" if agents > 1 else ""
    return f"flushes every {interval_ms} ms, {agents} agent{plural}, {rate} MiB/s"


def costs(bench: Bench) -> Iterator[Row]:
    """Yields a row for each number of agents and flush interval."""
    amount, prices = AMOUNTS[bench.size.name], load_prices()
    use_credentials()
    print(f"prices: {prices.source}")
    for agents in amount.agents:
        for interval_ms in amount.intervals:
            work = work_of(interval_ms, agents, amount.rate)
            yield Row(work, "lacuna", [_measure(agents, interval_ms, amount, prices)])


def _measure(agents: int, interval_ms: int, amount: Amount, prices: Prices) -> Run:
    with CountedS3() as service:
        options = [f"--flush-ms={interval_ms}", "--create-bucket"]
        with LacunaGrpc(options, agents=agents, store=service.url) as server:
            gibibytes, written, read = count_requests(server, service, amount.seconds, amount.rate)
    seconds = gibibytes * 1024 / amount.rate
    return {
        PUTS: written[PUT] / gibibytes,
        WRITE_DOLLARS: prices.of(written) / gibibytes * TEBIBYTES,
        DAY_DOLLARS: prices.of(Counter({PUT: written[PUT]})) / seconds * DAY_SECONDS,
        GETS: read[GET] / gibibytes,
        READ_DOLLARS: prices.of(read) / gibibytes * TEBIBYTES,
    }


def count_requests(
    server: LacunaGrpc,
    service: CountedS3,
    seconds: float,
    rate: int,
    settle: Callable[[], None] = lambda: None,
) -> tuple[float, Counter[str], Counter[str]]:
    """Writes at a fixed rate, lets the cluster settle, restarts the agents to empty their caches, and reads everything.

    Returns the size of the records in GiB, the requests for writing and settling, and the requests for reading.
    """
    topic = Topics(server).create("costs")
    client = ready_producer(server, topic)
    before = service.counts()
    records = write_at_rate(client, topic, seconds, rate)
    settle()
    written: Counter[str] = service.counts() - before
    server.forget()
    before = service.counts()
    consume(server, topic, **TUNED).check(records + PARTITIONS)
    read: Counter[str] = service.counts() - before
    return records * RECORD_BYTES / GIBIBYTE, written, read


def write_at_rate(client: Any, topic: str, seconds: float, rate: int) -> int:
    """Writes 1 KiB records to all partitions at this rate in MiB/s. Returns their number."""
    deliveries = Deliveries()
    total = int(seconds * rate * 1024)
    started = time.perf_counter()
    for index in range(total):
        due = started + index * RECORD_BYTES / (rate << 20)
        while (early := due - time.perf_counter()) > 0:
            client.poll(min(early, 0.01))
        value = POOL[index % POOL_SIZE]
        client.produce(topic, value, partition=index % PARTITIONS, on_delivery=deliveries)
    flush(client)
    deliveries.check(total)
    return total
