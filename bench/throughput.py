"""Throughput of producing, and of reading what was produced: 1 KiB records on 4 partitions, idempotent, acks=all.

The records are read with read_committed, after the server has emptied its caches: once with librdkafka's default
settings, and once with a larger queue ("tuned").
"""

from collections.abc import Iterator, Mapping, Sequence

from bench.clients import RECORD_BYTES, produce_all, ready_producer
from bench.figures import BUSIEST, CPU_PER_GIB, GIBIBYTE, MEGABYTE, THROUGHPUT, Row, Run
from bench.meter import Meter
from bench.reading import TUNED, consume
from bench.rounds import Bench, Measured
from bench.target import PARTITIONS, Target

CODECS = ("none", "lz4")
PRODUCE = "produce"
READ = "read_committed"
READ_TUNED = "read_committed, tuned"


def work_of(work: str, codec: str) -> str:
    """Returns the row's name. `work` is PRODUCE, READ or READ_TUNED."""
    return f"{work}, {codec}"


def throughput(bench: Bench) -> Iterator[Row]:
    """Yields rows for each codec: producing, reading, and reading with the tuned consumer."""
    consumers: dict[str, dict[str, object]] = {READ_TUNED: TUNED}
    if bench.size.default_consumer:
        consumers = {READ: {}, **consumers}
    yield from _rows(bench, CODECS, consumers, "")


def tls(bench: Bench) -> Iterator[Row]:
    """Yields rows for producing and for reading with the tuned consumer, on servers with and without TLS."""
    yield from _rows(bench, CODECS[:1], {READ_TUNED: TUNED}, ", with and without TLS")


def _rows(
    bench: Bench,
    codecs: Sequence[str],
    consumers: Mapping[str, Mapping[str, object]],
    suffix: str,
) -> Iterator[Row]:
    for codec in codecs:

        def run(target: Target, measured: Measured, codec: str = codec) -> None:
            _produce_and_read(bench, target, codec, bench.size.records, consumers, measured)

        def warm_up(target: Target, codec: str = codec) -> None:
            _produce_and_read(bench, target, codec, bench.size.records // 2, consumers, Measured())

        works = [work_of(work, codec) + suffix for work in (PRODUCE, *consumers)]
        yield from bench.rounds(works, run, warm_up=warm_up)


def _produce_and_read(
    bench: Bench,
    target: Target,
    codec: str,
    records: int,
    consumers: Mapping[str, Mapping[str, object]],
    measured: Measured,
) -> None:
    topic = bench.topics(target).create(f"produce-{codec}")
    client = ready_producer(target, topic, compression_type=codec)
    with Meter(target) as meter:
        produce_all(client, topic, records)
    measured.add(meter, _figures(meter, records, meter.seconds))
    for settings in consumers.values():
        bench.forget(target)
        consumed = consume(target, topic, **settings)
        consumed.check(records + PARTITIONS)
        figures = _figures(consumed.meter, consumed.records, consumed.last_record_seconds)
        measured.add(consumed.meter, figures)
    bench.topics(target).drop(topic)


def _figures(meter: Meter, records: int, seconds: float) -> Run:
    size = records * RECORD_BYTES
    return {
        THROUGHPUT: size / seconds / MEGABYTE,
        CPU_PER_GIB: meter.server_cpu_seconds / size * GIBIBYTE,
        BUSIEST: 100 * meter.busiest_thread_seconds / seconds,
    }
