"""Before anything is measured every target has worked for a while: a fresh JVM is up to twice slower."""

from bench.reading import TUNED, consume
from bench.rounds import Bench, Measured
from bench.transactions import measure

PRODUCERS = 8
READS = 3


def warm(bench: Bench) -> None:
    """Transactions for `warm_seconds` on each target, and their records read some times."""
    for target in bench.targets:
        topic = bench.topics(target).create("warming")
        measure(target, topic, PRODUCERS, bench.size.warm_seconds, Measured())
        for _ in range(READS):
            consume(target, topic, **TUNED)
        bench.topics(target).drop(topic)
