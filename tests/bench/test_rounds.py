"""Turns are fair: warm-ups are discarded, targets interleaved, and noisy runs repeated, but not forever."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from bench.figures import OTHERS, THROUGHPUT
from bench.kafka import Kafka
from bench.lacuna import Lacuna
from bench.meter import Meter
from bench.rounds import FULL, NOISE_PERCENT, QUICK, SMOKE, Bench, Measured
from bench.target import Foreign, Target
from bench.tiny import ONE_A_REQUEST
from bench.warming import warm

A, B = Foreign("127.0.0.1:1", 0, "a"), Foreign("127.0.0.1:2", 0, "b")


class Restless(Bench):
    """A bench that does not wait for the machine."""

    def rest(self) -> None:
        """Return at once."""


@dataclass
class Work:
    """Records the calls. `noise` lists the load of other processes at each call, and later calls have none."""

    noise: Iterator[float] = field(default_factory=lambda: iter(()))
    done: list[str] = field(default_factory=list)

    def __call__(self, target: Target, measured: Measured) -> None:
        self.done.append(target.label)
        meter = Meter(target)
        meter.others_percent = next(self.noise, 0.0)
        measured.add(meter, {THROUGHPUT: float(len(self.done))})


def bench(runs: int, repeats: int = 0, seconds: float = 60) -> Bench:
    return Restless([A, B], replace(SMOKE, runs=runs, repeats=repeats, repeat_seconds=seconds))


def test_warm_ups_first_and_then_in_turns() -> None:
    work = Work()
    rows = bench(3).rounds(["work"], work)
    assert work.done == ["a", "b", "a", "b", "a", "b", "a", "b"]
    assert [(row.target, [run[THROUGHPUT] for run in row.runs]) for row in rows] == [
        ("a", [3, 5, 7]),
        ("b", [4, 6, 8]),
    ]


def test_a_warm_up_of_its_own_takes_the_place_of_a_run() -> None:
    work = Work()
    warmed: list[str] = []
    rows = bench(1).rounds(["work"], work, warm_up=lambda target: warmed.append(target.label))
    assert (warmed, work.done) == (["a", "b"], ["a", "b"])
    assert [len(row.runs) for row in rows] == [1, 1]


def test_a_noisy_run_is_done_again_until_it_is_quiet() -> None:
    work = Work(iter([0.0, 0.0, 50.0, 0.0, 40.0, 1.0]))
    a, b = bench(1, repeats=5).rounds(["work"], work)
    assert work.done == ["a", "b", "a", "b", "a", "a"]
    assert (a.runs, a.repeated, a.noisy) == ([{THROUGHPUT: 6.0, OTHERS: 1.0}], 2, 0)
    assert (b.repeated, b.noisy) == (0, 0)


def test_what_stays_noisy_is_kept_at_its_quietest_and_said() -> None:
    work = Work(iter([0.0, 0.0, 50.0, 0.0, 20.0, 30.0]))
    a, _ = bench(1, repeats=2).rounds(["work"], work)
    assert (a.runs, a.repeated, a.noisy) == ([{THROUGHPUT: 5.0, OTHERS: 20.0}], 2, 1)


def test_patience_ends_for_all_sections_together() -> None:
    work = Work(iter([0.0, 0.0, 50.0, 0.0]))
    a, _ = bench(1, repeats=5, seconds=0).among(["lacuna"]).rounds(["work"], work)
    assert (a.repeated, a.noisy) == (0, 1)


def test_the_clocks_grain_is_no_noise() -> None:
    meter = Meter(A)
    meter.others_percent, meter.grain_percent = NOISE_PERCENT + 5, 5.0
    measured = Measured()
    measured.add(meter, {})
    assert measured.excess_percent == 0


def test_a_section_gets_the_targets_that_it_wants_and_foreign_ones() -> None:
    assert bench(1).among(["lacuna"]).targets == [A, B]


class NoTopics:
    """Replaces `Topics` where no server runs."""

    def create(self, name: str) -> str:
        return name

    def drop(self, topic: str) -> None:
        """Do nothing."""


def test_a_jvm_is_warmed_for_longer_and_in_a_quick_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 5 s, Kafka has half of its rate, which would flatter Lacuna; each kind of work is compiled separately."""
    warmed = {}
    filled = []

    def commit(target: Target, topic: str, producers: int, seconds: float) -> None:
        warmed[target.label] = seconds

    def fill(target: Target, topic: str, count: int, *_: object, **settings: object) -> None:
        filled.append((target.label, count, settings))

    monkeypatch.setattr("bench.warming.commit", commit)
    monkeypatch.setattr("bench.warming.fill", fill)
    monkeypatch.setattr("bench.warming.consume", lambda *_, **__: None)
    monkeypatch.setattr(Bench, "topics", lambda *_: NoTopics())
    warm(Restless([Lacuna(), Kafka(), A], QUICK))
    jvm = FULL.slow_warm_seconds
    assert warmed == {"lacuna": QUICK.warm_seconds, "kafka": jvm, "a": jvm}
    assert jvm >= FULL.warm_seconds > QUICK.warm_seconds
    kinds = ({"compression_type": "none"}, {"compression_type": "lz4"}, ONE_A_REQUEST)
    assert filled == [
        (each, QUICK.slow_warm_records, kind) for each in ("kafka", "a") for kind in kinds
    ]
