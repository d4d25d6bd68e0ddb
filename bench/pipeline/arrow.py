"""Compares `lacuna.read` with other ways to read a topic in Python: `python -m bench.pipeline.arrow`.

The log contains 1 GiB of 1 KiB records (`--mib` for less), some of them aborted. The other ways are a loop over
confluent_kafka's `poll`, on Lacuna and on Apache Kafka, which creates the same Arrow batches; Spark's Kafka source,
which counts the records and their bytes; and pyarrow, which reads the same rows from a Parquet file with the same
codec.

Everything runs on one core, including the server, if there is one. A figure is the minimum CPU time of reader and
server over several rounds. Wall time is not used, because other work on the machine lengthens it.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

import lacuna
from bench import BenchError, aborts
from bench.lacuna import Lacuna
from bench.meter import cpu_seconds, process_tree
from bench.pipeline.batch import read as read_with_spark
from bench.pipeline.data import fill, settle
from bench.pipeline.run import start
from bench.pipeline.sizes import SIZES, PipelineBench
from bench.pipeline.spark import open_spark
from bench.rounds import Bench
from bench.sections import KAFKA, LACUNA
from bench.target import PARTITIONS, Target

#: The codec of each log, and its share of aborted records in percent.
LOGS = (("none", 0), ("lz4", 0), ("none", 90), ("lz4", 90))
Log = tuple[str, int]
TYPES = (pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read a log: `read` returns the number of records. The processes `pids` and their children are measured
    as well.
    """

    name: str
    read: Callable[[], int]
    pids: tuple[int, ...] = ()

    def cpu(self) -> float:
        return time.process_time() + cpu_seconds(process_tree(self.pids) if self.pids else ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the records, in MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="also measure Spark's Kafka source")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = list(start(stack, [LACUNA, KAFKA]))
        bench = Bench(servers, SIZES["quick"].rounds)
        topics = {
            server.label: {log: _write(bench, server, log, given.mib) for log in LOGS}
            for server in servers
        }
        for server in servers:
            if isinstance(server, Lacuna):
                settle(server, topics[server.label][LOGS[-1]])
        spark = (
            stack.enter_context(open_spark(compares=True, with_kafka=True)) if given.spark else None
        )
        pipeline = None if spark is None else PipelineBench(bench, spark, SIZES["quick"])
        for log in LOGS:
            ways = [
                way
                for server in servers
                for way in _ways(server, topics[server.label][log], log, folder, pipeline)
            ]
            _compare(ways, log, given)


def _write(bench: Bench, server: Target, log: Log, mib: int) -> str:
    codec, share = log
    topic = bench.topics(server).create(f"arrow-{codec}-{share}")
    if share:
        aborts.write(server, topic, mib * 1024 // aborts.RECORDS, share, compression_type=codec)
    else:
        fill(server, topic, mib * 1024, codec)
    return topic


def _ways(
    server: Target, topic: str, log: Log, folder: Path, pipeline: PipelineBench | None
) -> Iterator[Way]:
    if isinstance(server, Lacuna):
        data = str(server.data)
        yield Way("lacuna.read", partial(read, topic, data), server.pids)
        file = write_parquet(topic, data, folder, log[0])
        yield Way("pyarrow from Parquet", partial(read_parquet, file))
    yield Way(f"confluent_kafka, {server.label}", partial(loop, server, topic), server.pids)
    if pipeline is not None:
        source = f"Spark's source for {server.label}"
        pids = (*server.pids, pipeline.spark.pid)
        yield Way(source, lambda: read_with_spark(pipeline, server, topic)[0], pids)


def _compare(ways: list[Way], log: Log, given: argparse.Namespace) -> None:
    """Discards a first round, and prints each way's minimum CPU and wall times, and its CPU time as a ratio."""
    codec, share = log
    print(f"\n{given.mib} MiB, {codec}, {share} % aborted", flush=True)
    first: tuple[int, float] | None = None
    for way in ways:
        found, records = [], 0
        for _ in range(given.rounds + 1):
            before, began = way.cpu(), time.perf_counter()
            records = way.read()
            found.append((way.cpu() - before, time.perf_counter() - began))
        cpu, wall = (min(times) for times in zip(*found[1:], strict=True))
        first = first or (records, cpu)
        if records != first[0]:
            raise BenchError(f"{way.name} read {records} records, not {first[0]}")
        print(
            f"{way.name:26} {records} records {cpu:8.3f} CPU s {wall:8.3f} s  x {cpu / first[1]:6.2f}",
            flush=True,
        )


def read(topic: str, data: str) -> int:
    return sum(batch.num_rows for batch in lacuna.read(topic, data=data))


def write_parquet(topic: str, data: str, folder: Path, codec: str) -> Path:
    reader = lacuna.read(topic, data=data)
    file = folder / f"{topic}.parquet"
    with pq.ParquetWriter(
        file, reader.schema, compression=codec, use_dictionary=["topic"]
    ) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return file


def read_parquet(file: Path) -> int:
    return sum(batch.num_rows for batch in pq.ParquetFile(file).iter_batches(use_threads=False))


def loop(server: Target, topic: str) -> int:
    """Polls a topic's records into Arrow batches of 10,000, and returns the number of records."""
    consumer = Consumer(
        {
            **server.client,
            "group.id": "arrow",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    left, count = PARTITIONS, 0
    rows: list[tuple[object, ...]] = []
    while left:
        message = consumer.poll(60)
        if message is None:
            raise BenchError(f"{server.label} sent nothing for a minute")
        if message.error() is not None:
            left -= 1
        else:
            place = message.partition(), message.offset(), message.timestamp()[1]
            rows.append((*place, message.key(), message.value()))
        if rows and (len(rows) == 10_000 or not left):
            count += _batch(rows).num_rows
            rows.clear()
    consumer.close()
    return count


def _batch(rows: Iterable[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(each, type_) for each, type_ in zip(columns, TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(
        arrays, names=("partition", "offset", "timestamp", "key", "value")
    )


if __name__ == "__main__":
    main()
