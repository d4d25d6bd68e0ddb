"""The counted values, and fair turns: warm-ups are discarded, and noisy runs repeated, but not forever."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bench import BenchError
from bench.aborts import RECORDS, is_aborted, transactions_for, write
from bench.fetches import Fetcher
from bench.figures import OTHERS, THROUGHPUT
from bench.kafka import Kafka
from bench.lacuna import Lacuna
from bench.meter import TICK_SECONDS, Meter, cpu_seconds, process_tree, read_bytes
from bench.reading import consume
from bench.rounds import FULL, NOISE_PERCENT, QUICK, SMOKE, Bench, Measured
from bench.target import PARTITIONS, Foreign, Target, Topics
from bench.tiny import ONE_A_REQUEST
from bench.warming import warm
from lacuna.testing import Cluster


@pytest.mark.parametrize("share", [*FULL.aborted_shares, 100])
def test_so_many_percent_are_aborted_and_evenly(share: int) -> None:
    aborted = [is_aborted(number, share) for number in range(200)]
    assert sum(aborted) == 2 * share
    assert all(abs(sum(aborted[:n]) - n * share / 100) < 1 for n in range(200))


def test_enough_is_committed_to_be_timed_and_logs_stay_small() -> None:
    counts = {share: transactions_for(share, FULL) for share in FULL.aborted_shares}
    assert all(counts[share] * (100 - share) / 100 >= 1000 for share in (0, 10, 25, 50, 75, 90))
    assert max(counts.values()) == counts[99] == FULL.transactions_at_most


class Steps:
    """A process that runs one piece of Python code at each `step`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._asks, self._tells = process.stdin, process.stdout

    def step(self) -> None:
        """Run the next piece, and return once it has ended."""
        self._asks.write(b"\n")
        self._asks.flush()
        assert self._tells.readline() == b"done\n"


@contextmanager
def steps(*pieces: str) -> Iterator[Steps]:
    """Run the pieces one after another in a new process, which ends after the block."""
    code = "; ".join(f"input(); {each}; print('done', flush=True)" for each in (*pieces, "pass"))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Steps(process)
        process.communicate(b"\n")


def test_reads_and_children_of_the_server_count(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    with steps(f"open({str(file)!r}, 'rb').read()") as child:
        child.step()
        assert child.pid in process_tree([os.getpid()])
        assert read_bytes([child.pid]) >= 1 << 20


@pytest.mark.slow
def test_work_of_ended_children_counts() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass"
    call = f"subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    with steps("import subprocess, sys", call) as child:
        child.step()
        before = cpu_seconds([child.pid])
        child.step()
        assert cpu_seconds([child.pid]) - before >= 0.3 - 2 * TICK_SECONDS


def test_work_of_ended_threads_counts() -> None:
    thread = "import threading; t = threading.Thread(target=sum, args=(range(3_000_000),))"
    with steps(thread, "t.start(); t.join()") as child:
        child.step()
        before = cpu_seconds([child.pid])
        child.step()
        used = cpu_seconds([child.pid])
        assert used > before
        assert used == pytest.approx(sum_of_stat(child.pid), abs=0.05)


def sum_of_stat(pid: int) -> float:
    """Return the same figure from /proc, which counts ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_SECONDS


def test_a_process_that_is_gone_counts_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    with Meter(Foreign("127.0.0.1:1", child.pid, "gone")) as meter:
        pass
    assert (meter.server_cpu_seconds, meter.read_bytes) == (0, 0)


@pytest.mark.slow
def test_the_busiest_thread_of_the_client_is_the_one_that_works() -> None:
    """A thread that waits adds nothing to it, nor does a thread's earlier work."""
    begin, end = threading.Event(), threading.Event()

    def work() -> None:
        use_cpu(0.2)
        begin.set()
        end.wait()

    other = threading.Thread(target=work)
    other.start()
    begin.wait()
    with Meter(Foreign("127.0.0.1:1", 0, "nothing")) as meter:
        use_cpu(0.2)
    end.set()
    other.join()
    assert 0.2 <= meter.busiest_thread_seconds < 0.4


def use_cpu(seconds: float) -> None:
    """Work until this thread has used this many more seconds."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.slow
def test_an_aborted_tail_is_one_small_answer() -> None:
    """S17: a wrong count is an error, regardless of the speed."""
    with Cluster() as cluster:
        target = Foreign(cluster.bootstrap, 0, "lacuna")
        topic = Topics(target).create("tail")
        committed = write(target, topic, 4, 0)
        consumed = consume(target, topic)
        consumed.check(committed)
        with pytest.raises(BenchError, match=f"expected {committed + 1} records"):
            consumed.check(committed + 1)
        assert write(target, topic, 8, 100) == 0
        with Fetcher(cluster.bootstrap) as fetcher:
            answer = fetcher.fetch(topic, dict(enumerate(consumed.positions)))
        assert answer.at_end
        assert answer.wire_bytes < 200 * PARTITIONS
        assert sum(answer.next_offsets.values()) >= committed + 8 * RECORDS


A, B = Foreign("127.0.0.1:1", 0, "a"), Foreign("127.0.0.1:2", 0, "b")


class Restless(Bench):
    """A bench that does not wait for the machine."""

    def rest(self) -> None:
        """Return at once."""


@dataclass
class Work:
    """Records calls. `noise` lists the load from other processes during each call; later calls have none."""

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
    """After 5 s, Kafka reaches half its rate, which would flatter Lacuna; each kind of work is compiled separately."""
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
