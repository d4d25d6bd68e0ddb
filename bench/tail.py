"""A log that ends with aborted records: the responses, bytes and reads that a consumer needs to get past them."""

import time
from collections.abc import Iterator

from bench import BenchError
from bench.aborts import RECORDS, write
from bench.fetches import Answer, Fetcher
from bench.figures import Better, Figure, Row
from bench.meter import Meter
from bench.reading import consume
from bench.rounds import Bench, Measured
from bench.target import PARTITIONS, Target

COMMITTED_TRANSACTIONS = 10
ANSWERS_AT_MOST = 10_000
ANSWERS = Figure("answers", Better.LESS)
END = Figure("end ms", Better.LESS)
WIRE_PER_PARTITION = Figure("wire bytes/partition", Better.LESS)
STORE = Figure("store bytes", Better.LESS)


def work_of(records: int) -> str:
    return f"end of a {records:,}-record aborted tail"


def tail(bench: Bench) -> Iterator[Row]:
    records = bench.size.tail_records
    with bench.topic_each("tail") as topics:
        starts = {each.label: _write(each, topics[each.label], records) for each in bench.targets}

        def run(target: Target, measured: Measured) -> None:
            warm = bench.forget(target)
            with Fetcher(target.bootstrap) as fetcher:
                fetcher.fetch(warm, {0: 0})  # so that the server has also served this version of it
                _measure(fetcher, target, topics[target.label], starts[target.label], measured)

        yield from bench.rounds([work_of(records)], run)


def _write(target: Target, topic: str, records: int) -> tuple[int, ...]:
    """Writes committed records and a tail. Returns the offset in each partition at which the tail begins."""
    committed = write(target, topic, COMMITTED_TRANSACTIONS, 0)
    consumed = consume(target, topic)
    consumed.check(committed)
    if write(target, topic, records // RECORDS, 100):
        raise BenchError(
            "records of the tail were committed, although the tail should have been aborted"
        )
    return consumed.positions


def _measure(
    fetcher: Fetcher, target: Target, topic: str, start: tuple[int, ...], measured: Measured
) -> None:
    answers: list[Answer] = []
    offsets = dict(enumerate(start))
    with Meter(target) as meter:
        started = time.perf_counter()
        while not answers or not answers[-1].at_end:
            if len(answers) == ANSWERS_AT_MOST:
                raise BenchError(
                    f"the end of the tail was not reached after {ANSWERS_AT_MOST} responses"
                )
            answers.append(fetcher.fetch(topic, offsets))
            offsets = answers[-1].next_offsets
        seconds = time.perf_counter() - started
    figures = {
        ANSWERS: float(len(answers)),
        WIRE_PER_PARTITION: sum(answer.wire_bytes for answer in answers) / PARTITIONS,
        STORE: float(meter.read_bytes),
        END: seconds * 1000,
    }
    measured.add(meter, figures)
