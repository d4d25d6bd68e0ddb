"""Writes batches of a single 100-byte record, as tiny producers do, one per request, and reads them.

They are read twice: after the server has emptied its caches, and then again. Both reads happen within a minute of
writing, before Lacuna begins to merge the batches.
"""

from collections.abc import Iterator
from functools import partial

from bench.clients import TINY, fill, produce_all, ready_producer
from bench.figures import (
    BUSIEST,
    CPU_PER_1000,
    KILO_RECORDS,
    STORE_BYTES,
    WIRE_BYTES,
    Better,
    Figure,
    Row,
)
from bench.meter import Meter
from bench.reading import TUNED, consume
from bench.rounds import Bench, Measured
from bench.target import Target

REQUESTS = Figure("requests/s", Better.MORE)
ONE_A_REQUEST = {"batch_num_messages": 1, "linger_ms": 0}
PRODUCE = "produce 1-record batches, one a request"
READ = "read 1-record batches, first"
READ_AGAIN = "read 1-record batches, again"


def tiny(bench: Bench) -> Iterator[Row]:
    """Yields rows for producing, for the first read, and for the second."""
    records = bench.size.tiny_records
    with bench.topic_each("tiny") as topics:
        for target in bench.targets:
            fill(target, topics[target.label], records, TINY, **ONE_A_REQUEST)

        def read(target: Target, measured: Measured) -> None:
            bench.forget(target)
            for _ in range(2):
                _read(target, topics[target.label], records, measured)

        yield from bench.rounds([READ, READ_AGAIN], read)
    yield from bench.rounds([PRODUCE], partial(_produce, bench))


def _produce(bench: Bench, target: Target, measured: Measured) -> None:
    topic = bench.topics(target).create("tiny-produce")
    client = ready_producer(target, topic, TINY, **ONE_A_REQUEST)
    requests = bench.size.tiny_requests
    with Meter(target) as meter:
        produce_all(client, topic, requests, TINY)
    figures = {
        REQUESTS: requests / meter.seconds,
        CPU_PER_1000: meter.server_cpu_seconds / requests * 1000,
        BUSIEST: 100 * meter.busiest_thread_seconds / meter.seconds,
    }
    measured.add(meter, figures)
    bench.topics(target).drop(topic)


def _read(target: Target, topic: str, records: int, measured: Measured) -> None:
    consumed = consume(target, topic, **TUNED)
    consumed.check(records)
    figures = {
        KILO_RECORDS: records / consumed.last_record_seconds / 1000,
        WIRE_BYTES: consumed.received_bytes / records,
        STORE_BYTES: consumed.meter.read_bytes / records,
        BUSIEST: 100 * consumed.meter.busiest_thread_seconds / consumed.last_record_seconds,
    }
    measured.add(consumed.meter, figures)
