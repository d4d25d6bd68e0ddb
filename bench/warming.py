"""Makes every target work for a while before anything is measured: a fresh JVM takes up to twice as long."""

from bench.reading import TUNED, consume
from bench.rounds import Bench
from bench.transactions import commit

PRODUCERS = 8
READS = 3


def warm(bench: Bench) -> None:
    """Commits transactions for `warm_seconds` on each target, and reads their records several times."""
    for target in bench.targets:
        topic = bench.topics(target).create("warming")
        commit(target, topic, PRODUCERS, bench.size.warm_seconds)
        for _ in range(READS):
            consume(target, topic, **TUNED)
        bench.topics(target).drop(topic)
