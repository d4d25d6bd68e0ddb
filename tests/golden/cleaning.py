"""Histories of compacted topics, and what a read_committed consumer reads from the start of each after cleaning.

cleaning_kafka_4_4.json contains the histories, some written by hand and some random, with the reads from a real Kafka
4.4 whose log cleaner had finished after each phase. To capture the reads of all histories there again: `python -m
tests.golden.capture --kafka DIR cleaning`. The broker needs BROKER's settings.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition

from tests.clients.batch import Rec, batch
from tests.clients.librd import consumer, producer
from tests.clients.probing import Target

GOLDEN: Final = pathlib.Path(__file__).with_name("cleaning_kafka_4_4.json")
#: Settings for the broker that is captured: cleaning and retention begin immediately.
BROKER: Final = "log.retention.check.interval.ms=500\n"
#: The last phase only begins a new segment: Kafka's cleaner looks at old tombstones only when there is more.
PHASES: Final = 4
#: How much later each phase is than the previous one, by record timestamps, so that Kafka begins a new segment.
PHASE_MS: Final = 100_000
SEGMENT_MS: Final = 60_000
#: Kafka's time to clean a phase, and its time for another pass: longer than 1 s, the shortest
#: delete.retention.ms of the histories.
CLEAN_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 5.0
#: A history in which Kafka may delete records that it has not yet cleaned.
DELETED: Final = "compact,delete"

#: ["batch", codec, age in ms, rows], ["begin", producer], ["put", producer, rows], ["commit", producer] or
#: ["abort", producer]; a row is [key, value], and null as a value makes a tombstone.
Step = Sequence[Any]
Row = tuple[str, str | None]


@dataclass(slots=True)
class History:
    """A topic's configs, and its steps by phase. `holds` lists the phases, out of PHASES, that are not followed by
    cleaning.
    """

    name: str
    configs: dict[str, Any]
    phases: list[list[Step]]
    holds: list[int] = field(default_factory=list)
    reads: list[Row] = field(default_factory=list)
    #: How much older than usual all its records are.
    age_ms: int = 0


def load() -> list[History]:
    """Return the captured histories with Kafka's reads."""
    found = [History(**row) for row in json.loads(GOLDEN.read_text())]
    for each in found:
        each.reads = [(key, value) for key, value in each.reads]
    return found


# Running them.


class Player:
    """Runs histories side by side, phase by phase, on Kafka or Lacuna. `now_ms` is the broker's time."""

    def __init__(self, bootstrap: str, histories: Sequence[History], now_ms: int) -> None:
        self.target = Target(bootstrap)
        self.histories = histories
        self.topics = [self._topic(each) for each in histories]
        self._now_ms = now_ms
        self._producers: dict[tuple[str, str], Producer] = {}
        self._count = 0

    def _topic(self, history: History) -> str:
        configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0"}
        return self.target.topic(**configs | {"segment_ms": SEGMENT_MS} | history.configs)

    def play(self, phase: int) -> list[int]:
        """Write a phase of each history and then a record that begins a new segment. Return the latter's offset."""
        found = []
        for history, topic in zip(self.histories, self.topics, strict=True):
            base_ms = self._now_ms + phase * PHASE_MS - history.age_ms
            for step in history.phases[phase] if phase < len(history.phases) else ():
                self._count += 1
                self._step(topic, step, base_ms + self._count)
            tick = Rec(key=b"tick-%d" % phase, value=b"")
            answer = self.target.produce(topic, batch([tick], base_timestamp=base_ms + PHASE_MS))
            assert answer["error_code"] == 0, answer
            found.append(int(answer["base_offset"]))
        return found

    def _step(self, topic: str, step: Step, now_ms: int) -> None:
        what, who = step[0], step[1]
        if what == "batch":
            records = [_record(row) for row in step[3]]
            data = batch(records, codec=step[1], base_timestamp=now_ms - step[2])
            answer = self.target.produce(topic, data)
            assert answer["error_code"] == 0, answer
            return
        transactional = self._producer(topic, who)
        if what == "begin":
            transactional.begin_transaction()
        elif what == "put":
            for row in step[2]:
                record = _record(row)
                transactional.produce(topic, record.value, record.key, 0, timestamp=now_ms)
            assert transactional.flush(60) == 0
        elif what == "commit":
            transactional.commit_transaction(60)
        else:
            transactional.abort_transaction(60)

    def _producer(self, topic: str, who: str) -> Producer:
        key = (topic, who)
        if key not in self._producers:
            self._producers[key] = producer(self.target.bootstrap, f"{topic}-{who}", linger_ms=50)
        return self._producers[key]

    def read(self) -> list[list[Row]]:
        """Return the key and value of each record in each topic, except those that begin a segment."""
        return [_read(self.target.bootstrap, topic) for topic in self.topics]


def _record(row: Sequence[str | None]) -> Rec:
    key, value = row
    assert key is not None
    return Rec(key=key.encode(), value=None if value is None else value.encode())


def _read(bootstrap: str, topic: str) -> list[Row]:
    who = consumer(bootstrap)
    who.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Row] = []
    try:
        while True:
            message = who.poll(60)
            assert message is not None, "the consumer stands still"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            if not key.startswith(b"tick"):
                found.append((key.decode(), None if value is None else bytes(value).decode()))
    finally:
        who.close()


# Capturing.


def capture(bootstrap: str, clean_offsets: Callable[[], dict[str, int]]) -> None:
    """Write the reads of GOLDEN's histories. `clean_offsets` returns the cleaner's position in each topic."""
    histories = load()
    player = Player(bootstrap, histories, int(time.time() * 1000))
    for phase in range(PHASES):
        ends = player.play(phase)
        wanted = {each.name for each in histories if phase not in each.holds} - {DELETED}
        deadline = time.monotonic() + CLEAN_SECONDS
        while True:
            found = clean_offsets()
            cleaned = {
                each.name
                for each, topic, end in zip(histories, player.topics, ends, strict=True)
                if found.get(topic, 0) >= end
            }
            if cleaned >= wanted or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        time.sleep(AGAIN_SECONDS)
        assert cleaned - {DELETED} == wanted, (phase, cleaned ^ wanted)
    rows = []
    for history, reads in zip(histories, player.read(), strict=True):
        row = {
            name: getattr(history, name)
            for name in ("name", "configs", "phases", "holds", "age_ms")
        }
        rows.append(row | {"reads": reads})
    GOLDEN.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def clean_offsets(data: pathlib.Path) -> dict[str, int]:
    """Return the offsets in a broker's cleaner checkpoint, by topic."""
    lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    return {topic: int(offset) for topic, _, offset in map(str.split, lines)}
