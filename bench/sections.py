"""The sections of the benchmark, by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.aborts import aborts
from bench.bucket import bucket
from bench.costs import costs
from bench.crowd import crowd
from bench.figures import Row
from bench.java import java
from bench.journals import journals
from bench.latency import latency
from bench.memory import memory
from bench.messages import messages
from bench.million import million
from bench.rounds import Bench
from bench.scale import scale
from bench.shares import shares
from bench.standby import standby
from bench.tail import tail
from bench.throughput import throughput, tls
from bench.tiny import tiny
from bench.transactions import transactions
from bench.zone import zone

LACUNA = "lacuna"
LACUNA_GRPC = "lacuna grpc"
KAFKA = "kafka"
KAFKA_FSYNC = "kafka fsync"
KAFKA_4_4 = "kafka 4.4"
LACUNA_TLS = "lacuna tls"
KAFKA_TLS = "kafka tls"
BARE = "bare"


@dataclass(frozen=True, slots=True)
class Section:
    """A section: `run` yields its rows on the servers labelled `targets`, or on its own if there are none.

    If `everyday`, it is part of the quick run.
    """

    run: Callable[[Bench], Iterator[Row]]
    targets: tuple[str, ...] = ()
    everyday: bool = True


SECTIONS: dict[str, Section] = {
    "bucket": Section(bucket, everyday=False),
    "throughput": Section(throughput, (LACUNA, KAFKA, KAFKA_FSYNC, BARE)),
    "transactions": Section(transactions, (LACUNA, LACUNA_GRPC, KAFKA, KAFKA_FSYNC, BARE)),
    "aborts": Section(aborts, (LACUNA, KAFKA)),
    "tail": Section(tail, (LACUNA, KAFKA)),
    "tiny": Section(tiny, (LACUNA, KAFKA, BARE)),
    "latency": Section(latency, (LACUNA, KAFKA, KAFKA_FSYNC, BARE)),
    "shares": Section(shares, (LACUNA, KAFKA_4_4), everyday=False),
    "tls": Section(tls, (LACUNA, LACUNA_TLS, KAFKA, KAFKA_TLS), everyday=False),
    "java": Section(java, (LACUNA, KAFKA, KAFKA_FSYNC), everyday=False),
    "journals": Section(journals, everyday=False),
    "messages": Section(messages),
    "crowd": Section(crowd, (LACUNA, KAFKA), everyday=False),
    "memory": Section(memory, everyday=False),
    "scale": Section(scale, everyday=False),
    "million": Section(million, everyday=False),
    "standby": Section(standby, everyday=False),
    "costs": Section(costs, everyday=False),
    "zone": Section(zone, everyday=False),
}
