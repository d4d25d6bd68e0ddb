"""Makes every target work for a while before anything is measured.

A new JVM spends a long time compiling, separately for each kind of work. After 15 s, Kafka commits the transactions of
eight producers half as fast as after 40 s; from then on, it hardly gets faster. Its first 50 MB of large requests take
twice the CPU time of the fourth 50 MB. Lacuna and `bare` reach full speed within 5 s. A JVM is therefore warmed up for
longer and, in a quick run, whose sections have short warm-ups, with more kinds of work. Otherwise, the ratios would
flatter Lacuna.
"""

from bench.clients import TINY, fill
from bench.reading import TUNED, consume
from bench.rounds import Bench
from bench.target import Target
from bench.throughput import CODECS
from bench.tiny import ONE_A_REQUEST
from bench.transactions import commit

PRODUCERS = 8
READS = 3


def warm(bench: Bench) -> None:
    """Warms up all targets with transactions and, if they warm up slowly, plain records. Reads all of them."""
    for target in bench.targets:
        topic = bench.topics(target).create("warming")
        if target.warms_slowly:
            _warm_slowly(bench, target, topic)
        else:
            commit(target, topic, PRODUCERS, bench.size.warm_seconds)
        for _ in range(READS):
            consume(target, topic, **TUNED)
        bench.topics(target).drop(topic)


def _warm_slowly(bench: Bench, target: Target, topic: str) -> None:
    commit(target, topic, PRODUCERS, bench.size.slow_warm_seconds)
    for codec in CODECS:
        fill(target, topic, bench.size.slow_warm_records, compression_type=codec)
    fill(target, topic, bench.size.slow_warm_records, TINY, **ONE_A_REQUEST)
