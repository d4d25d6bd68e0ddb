"""Reads logs with a given share of aborted records.

Four producers write transactions of 100 records over 4 partitions. Rates count only committed records. The server drops
its caches before each measured read, so "store bytes" is the number of bytes that it reads from its files (for Kafka,
from its log) per committed record.
"""

from collections.abc import Iterator

from bench.clients import RECORD_BYTES, Threads, flush, produce, producer
from bench.figures import (
    BUSIEST,
    CPU_PER_GIB,
    GIBIBYTE,
    KILO_RECORDS,
    STORE_BYTES,
    WIRE_BYTES,
    Row,
)
from bench.reading import TUNED, consume
from bench.rounds import Bench, Measured, Size
from bench.target import TIMEOUT_SECONDS, Target

RECORDS = 100
PRODUCERS = 4
LZ4_SHARES = (0, 50, 90)


def work_of(share: int, codec: str) -> str:
    return f"{share} % aborted, {codec}"


def aborts(bench: Bench) -> Iterator[Row]:
    """Yields a row per share and codec: all shares without compression, and only the lowest and highest with lz4."""
    works = [("none", share) for share in bench.size.aborted_shares]
    works += [("lz4", share) for share in bench.size.aborted_shares if share in LZ4_SHARES]
    for codec, share in works:
        yield from _rows(bench, codec, share)


def _rows(bench: Bench, codec: str, share: int) -> list[Row]:
    count = transactions_for(share, bench.size)
    with bench.topic_each(f"aborts-{share}-{codec}") as topics:
        committed = {
            each.label: write(each, topics[each.label], count, share, compression_type=codec)
            for each in bench.targets
        }

        def run(target: Target, measured: Measured) -> None:
            _read(bench, target, topics[target.label], committed[target.label], measured)

        return bench.rounds([work_of(share, codec)], run)


def transactions_for(share: int, size: Size) -> int:
    """Returns the number of transactions to write, which is large enough to make the time to connect negligible."""
    wanted = -(-100 * size.committed_transactions // (100 - share))
    return min(max(size.abort_transactions, wanted), size.transactions_at_most)


def is_aborted(number: int, share: int) -> bool:
    """Whether to abort transaction `number`. `share` percent of the transactions are aborted, evenly spread."""
    return (number + 1) * share // 100 > number * share // 100


def write(
    target: Target,
    topic: str,
    count: int,
    share: int,
    producers: int = PRODUCERS,
    **settings: str,
) -> int:
    """Writes `count` transactions and aborts `share` percent of them. Returns the number of committed records."""
    committed: list[int] = []

    def work(number: int) -> None:
        client = producer(target, transactional_id=f"{topic}-{number}", **settings)
        client.init_transactions(TIMEOUT_SECONDS)
        for transaction in range(number, count, producers):
            client.begin_transaction()
            for index in range(transaction * RECORDS, (transaction + 1) * RECORDS):
                produce(client, topic, index)
            if is_aborted(transaction // producers, share):
                flush(client)  # so that the records are in the log before they are aborted
                client.abort_transaction(TIMEOUT_SECONDS)
            else:
                client.commit_transaction(TIMEOUT_SECONDS)
                committed.append(RECORDS)

    with Threads(work, producers):
        pass
    return sum(committed)


def _read(bench: Bench, target: Target, topic: str, committed: int, measured: Measured) -> None:
    bench.forget(target)
    consumed = consume(target, topic, **TUNED)
    consumed.check(committed)
    meter = consumed.meter
    figures = {
        KILO_RECORDS: committed / consumed.last_record_seconds / 1000,
        WIRE_BYTES: consumed.received_bytes / committed,
        STORE_BYTES: meter.read_bytes / committed,
        CPU_PER_GIB: meter.server_cpu_seconds / (committed * RECORD_BYTES) * GIBIBYTE,
        BUSIEST: 100 * meter.busiest_thread_seconds / consumed.last_record_seconds,
    }
    measured.add(meter, figures)
