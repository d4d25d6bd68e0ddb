"""Tests that both forms of the loops over slices decide and replay alike, and write the same bytes as protobuf."""

import random
from contextlib import suppress
from types import ModuleType

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given as given_by
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.extents import FLAG_LOG_APPEND_TIME
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Failure, SessionResponse
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, SegmentRecorded
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentSlice
from lacuna.controlplane.verbs import commits
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL, Cluster, add_batch
from tests.controlplane.verbs.script import run
from tests.forms import FORMS, compiled, interpreted

SLICES = "lacuna.controlplane.verbs.slices"

Joined = dict[int, dict[PartitionKey, TopicPartition]]


@pytest.fixture(scope="session", params=FORMS)
def slices(request: pytest.FixtureRequest) -> ModuleType:
    """Returns `lacuna.controlplane.verbs.slices`, interpreted and compiled."""
    return interpreted(SLICES) if request.param == "interpreted" else compiled(SLICES)


class Checked:
    """One form as `commits` calls it. Compares its results with protobuf's, and keeps them."""

    def __init__(self, form: ModuleType) -> None:
        self.form = form
        self.returned: list[object] = []
        self.codes: set[int] = set()

    def decide_slices(self, *arguments: object) -> tuple[bytes, bytes, dict[int, int], Joined]:
        recorded, verdicts, started, joined = self.form.decide_slices(*arguments)
        assert SegmentRecorded.FromString(recorded).SerializeToString() == recorded
        committed = SegmentCommitted.FromString(verdicts)
        assert committed.SerializeToString() == verdicts
        for verdict in committed.slices:
            self.codes.update((verdict.error_code, *verdict.error_codes))
        self.returned.append((recorded, verdicts, started, joined))
        return recorded, verdicts, started, joined

    def replay_slices(self, *arguments: object) -> tuple[int, bytes]:
        extents, deltas = self.form.replay_slices(*arguments)
        assert SessionResponse.FromString(deltas).SerializeToString() == deltas
        self.returned.append((extents, deltas))
        return extents, deltas


def _drive(form: ModuleType, seed: int, patch: pytest.MonkeyPatch) -> tuple[Checked, bytes]:
    """Commit what a seed gives, most of it valid. Return the results and the final state."""
    checked = Checked(form)
    patch.setattr(commits, "decide_slices", checked.decide_slices)
    patch.setattr(commits, "replay_slices", checked.replay_slices)
    chance = random.Random(seed)
    cluster = run("topic a 3\ntopic b 130\n" + "init w\ninit x\ninit y\ninit z\n")
    for text in ("a-0", "b-129"):
        cluster.state.watch((cluster.partition(text).topic_id, cluster.partition(text).partition))
    sequences: dict[tuple[str, int], int] = {}
    for _ in range(40):
        cluster.now_ms += chance.choice((1, 60_000, 3_600_000))
        texts = chance.sample(("a-0", "a-1", "a-9", "b-0", "b-128", "b-129", "c-0"), 4)
        given = [_slice(cluster, chance, text, sequences) for text in texts]
        cluster.commit(*given, transactional_ids=("w", "x", "y", "z"))
        if chance.random() < 0.2:
            cluster.tick()
    return checked, machine.snapshot(cluster.state)


def _slice(
    cluster: Cluster, chance: random.Random, text: str, sequences: dict[tuple[str, int], int]
) -> SegmentSlice:
    given = SegmentSlice(partition=cluster.partition(text))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 8))):
        producer_id = chance.choice((-1, 1, 1, 2, 3, 4))
        flags = chance.choice((0, FLAG_LOG_APPEND_TIME))
        if producer_id > 1:
            flags |= TRANSACTIONAL | chance.choice((0, ADDS_PARTITION, ADDS_PARTITION))
            flags |= chance.choice((0, producer_id, producer_id, producer_id, 1)) << 4
        count = chance.choice((1, 3, 500))
        sequence = sequences.get((text, producer_id), 0)
        if chance.random() < 0.1:
            sequence = max(0, sequence - count)
        epoch = chance.choice((0, 0, 0, 0, 0, 1)) if producer_id > 0 else -1
        size = chance.choice((100, 3_000, 1 << 20))
        add_batch(
            given,
            count=count,
            producer=(producer_id, epoch),
            sequence=sequence if producer_id > 0 else -1,
            flags=flags,
            timestamp=cluster.now_ms,
            size=size,
            gap=chance.choice((0, 0, 1)),
        )
        sequences[text, producer_id] = sequence + count
    return given


@pytest.mark.parametrize("seed", range(2))
def test_both_forms_decide_and_replay_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_python, as_python_left_it = _drive(interpreted(SLICES), seed, monkeypatch)
    in_c, as_c_left_it = _drive(compiled(SLICES), seed, monkeypatch)
    assert in_python.returned == in_c.returned
    assert as_python_left_it == as_c_left_it
    # The commits had what a seed is to give: accepted batches, and several kinds of refused ones.
    assert {0, 3, 45, 47, 100} <= in_c.codes


def test_s9_the_partition_of_a_refused_batch_joins(
    slices: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "decide_slices", slices.decide_slices)
    run("""
        topic a 1
        init x
        put a-0 x1 1/0@5 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/0@6 tv2                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
        state x                                -> Ongoing 1/0
    """)


def test_a_message_that_is_cut_short_is_refused(slices: ModuleType) -> None:
    cluster = Cluster()
    cluster.create("a")
    cluster.put("a-0")
    record = JournalRecord.FromString(cluster.journal[-1]).segment_recorded
    (recorded,) = record.slices
    data = SegmentRecorded(slices=[recorded]).SerializeToString()
    for size in range(1, len(data)):
        with pytest.raises((ValueError, KeyError)):
            slices.replay_slices(cluster.state, data[:size], 0)
    with pytest.raises(ValueError, match="overlaps"):
        slices.replay_slices(cluster.state, data, 0)


def test_fields_of_later_versions_are_passed_over(slices: ModuleType) -> None:
    cluster = Cluster()
    cluster.create("a")
    given = SegmentSlice(partition=cluster.partition("a-0"))
    add_batch(given)
    # Fields 900 to 903: a number, eight bytes, a string, and four bytes.
    later = (
        b"\xa0\x38\xff\x01" + b"\xa9\x38" + b"8" * 8 + b"\xb2\x38\x02ab" + b"\xbd\x38" + b"4" * 4
    )
    known = SegmentCommitted.FromString(
        slices.decide_slices(cluster.state, _in_commit(given.SerializeToString()), 1, 1, 1000, ())[
            1
        ]
    )
    passed = SegmentCommitted.FromString(
        slices.decide_slices(
            cluster.state, later + _in_commit(later + given.SerializeToString()), 1, 1, 1000, ()
        )[1]
    )
    assert list(known.slices[0].base_offsets) == [0]
    assert passed == known


def _committing(cluster: Cluster, data: bytes) -> SegmentCommitted:
    """Return the result of these bytes as a CommitSegment in another segment, or nothing if it is rejected."""
    cluster.sequence += 1
    command = CommitSegment.FromString(data)
    command.segment.lease_id, command.segment.sequence = cluster.lease_id, cluster.sequence
    command.object_size = 1 << 30
    committed = cluster.do("commit_segment", command)
    return SegmentCommitted() if isinstance(committed, Failure) else committed


@pytest.mark.parametrize(
    "unknown",
    {
        "an empty group of number 900": b"\xa3\x38\xa4\x38",
        "slices as four bytes": b"\x1d\xff\xff\xff\xff",
        "slices as a number": b"\x18\x05",
    }.values(),
)
def test_what_protobuf_does_not_know_stops_nothing(unknown: bytes) -> None:
    cluster = Cluster()
    cluster.create("a")
    given = SegmentSlice(partition=cluster.partition("a-0"))
    add_batch(given)
    committed = _committing(cluster, _in_commit(given.SerializeToString()) + unknown)
    assert [list(each.base_offsets) for each in committed.slices] == [[0]]


def test_a_partition_of_another_kind_is_the_first_and_is_journalled_so() -> None:
    """As in protobuf, a partition number encoded as four bytes is ignored."""
    cluster = Cluster()
    cluster.create("a", 4)
    odd = SegmentSlice(partition=cluster.partition("a-3"))
    odd.partition.ClearField("partition")
    odd.partition.MergeFromString(b"\x15\x02\x00\x00\x00")
    add_batch(odd)
    unknown = SegmentSlice(partition=cluster.partition("b-3"))
    add_batch(unknown)
    data = b"".join(_in_commit(each.SerializeToString()) for each in (unknown, odd))
    committed = _committing(cluster, data)
    assert [each.error_code for each in committed.slices] == [100, 0]
    (recorded,) = JournalRecord.FromString(cluster.journal[-1]).segment_recorded.slices
    assert recorded.partition == cluster.partition("a-0")
    assert recorded.partition.SerializeToString() == cluster.partition("a-0").SerializeToString()
    assert cluster.put("a-0") == 1
    assert cluster.put("a-3") == 0


@given_by(
    edits=st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=6)), max_size=3)
)
def test_no_bytes_of_a_commit_stop_the_control_plane(edits: list[tuple[int, bytes]]) -> None:
    """A commit that protobuf accepts is either decided and replayed, or rejected."""
    cluster = Cluster()
    cluster.create("a", 2)
    slices = []
    for text in ("a-0", "a-1"):
        slices.append(SegmentSlice(partition=cluster.partition(text)))
        for sequence in range(2):
            add_batch(slices[-1], producer=(5, 1), sequence=sequence)
    data = bytearray(
        CommitSegment(
            slices=slices, object_size=1 << 30, transactional_ids=["t"]
        ).SerializeToString()
    )
    for at, replacement in edits:
        at %= len(data)
        data[at : at + len(replacement)] = replacement
    with suppress(DecodeError):
        _committing(cluster, bytes(data))
    cluster.check()


def _in_commit(given: bytes) -> bytes:
    """Return CommitSegment.slices with one slice of fewer than 128 bytes."""
    return bytes((3 << 3 | 2, len(given))) + given
