"""Tests that both forms of the loops over slices decide and replay alike, and write the same bytes as protobuf."""

import random
from contextlib import suppress
from types import ModuleType

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given as given_by
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import RECORDED_SLICE, SegmentSlice, commit_of, verdicts_of
from lacuna.controlplane.shared.extents import EXTENT_ROW, FLAG_LOG_APPEND_TIME
from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Failure
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentId
from lacuna.controlplane.verbs import commits
from lacuna.controlplane.verbs.refusals import MalformedCommand
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
    """One form, as `commits` calls it. Compares its results with protobuf's and keeps them."""

    def __init__(self, form: ModuleType) -> None:
        self.form = form
        self.returned: list[object] = []
        self.codes: set[int] = set()

    def decide_slices(self, *arguments: object) -> tuple[object, ...]:
        decided: tuple[object, ...] = self.form.decide_slices(*arguments)
        _, _, _, slices, batches, *_ = decided
        committed = SegmentCommitted(slices=slices, batches=batches)  # type: ignore[arg-type]
        for verdict in verdicts_of(committed):
            self.codes.update((verdict.error_code, *verdict.error_codes))
        self.returned.append(decided)
        return decided

    def replay_slices(self, *arguments: object) -> int:
        extents: int = self.form.replay_slices(*arguments)
        self.returned.append(extents)
        return extents


def _drive(form: ModuleType, seed: int, patch: pytest.MonkeyPatch) -> tuple[Checked, bytes]:
    """Commit random slices from a seed, most of them valid. Return the results and the final state."""
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
    given = cluster.slice(text)
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


@pytest.mark.slow
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


def _recorded(cluster: Cluster) -> tuple[bytes, bytes, bytes]:
    record = JournalRecord.FromString(cluster.journal[-1]).segment_recorded
    return record.slices, record.extents, record.batches


def test_rows_that_are_cut_short_are_refused(slices: ModuleType) -> None:
    cluster = run("topic a 1")
    cluster.put("a-0", producer=(5, 0), sequence=0)
    rows = _recorded(cluster)
    for column, whole in enumerate(rows):
        for size in range(len(whole)):
            cut = [*rows]
            cut[column] = whole[:size]
            if cut[0]:
                with pytest.raises(ValueError, match="row"):
                    slices.replay_slices(cluster.state, *cut, 0)


@pytest.mark.parametrize(
    ("base_offset", "next_offset", "size", "high_watermark", "why"),
    [
        (0, 1, 100, 1, "overlaps"),
        (1, 1, 100, 1, "empty"),
        (1, 2, 0, 2, "empty"),
        (1, 2, 100, 1, "not the end of the extents"),
        (1, 2, 100, 3, "not the end of the extents"),
    ],
)
def test_an_extent_that_cannot_follow_breaks_an_invariant(
    slices: ModuleType,
    base_offset: int,
    next_offset: int,
    size: int,
    high_watermark: int,
    why: str,
) -> None:
    cluster = run("topic a 1")
    cluster.put("a-0")
    topic_id, _ = cluster.slice("a-0").key
    row = EXTENT_ROW.pack(1, 9, 0, size, base_offset, next_offset, 7, -1, -1, 0, 0)
    recorded = RECORDED_SLICE.pack(topic_id, 0, 1, 0, high_watermark)
    with pytest.raises(InvariantBroken, match=why):
        slices.replay_slices(cluster.state, recorded, row, b"", 0)


def test_a_commit_whose_rows_do_not_fit_is_refused(slices: ModuleType) -> None:
    cluster = run("topic a 1")
    given = cluster.slice("a-0")
    add_batch(given)
    whole = commit_of(SegmentId(), 1000, [given])
    for rows in (
        (whole.slices[:-1], whole.batches),
        (whole.slices, whole.batches[:-1]),
        (whole.slices, b""),
        (whole.slices, 2 * whole.batches),
    ):
        with pytest.raises(MalformedCommand):
            slices.decide_slices(cluster.state, *rows, 1, 1, 1000, ())


def _committing(cluster: Cluster, data: bytes) -> SegmentCommitted:
    """Return the result of committing these bytes as a CommitSegment in a new segment, empty if it is rejected."""
    cluster.sequence += 1
    command = CommitSegment.FromString(data)
    command.segment.lease_id, command.segment.sequence = cluster.lease_id, cluster.sequence
    command.object_size = 1 << 30
    committed = cluster.do("commit_segment", command)
    return SegmentCommitted() if isinstance(committed, Failure) else committed


@given_by(
    edits=st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=6)), max_size=3)
)
def test_no_bytes_of_a_commit_stop_the_control_plane(edits: list[tuple[int, bytes]]) -> None:
    """A commit that protobuf accepts is either decided and replayed, or rejected."""
    cluster = run("topic a 2")
    slices = []
    for text in ("a-0", "a-1"):
        slices.append(cluster.slice(text))
        for sequence in range(2):
            add_batch(slices[-1], producer=(5, 1), sequence=sequence)
    data = bytearray(commit_of(SegmentId(), 1 << 30, slices, ["t"]).SerializeToString())
    for at, replacement in edits:
        at %= len(data)
        data[at : at + len(replacement)] = replacement
    with suppress(DecodeError):
        _committing(cluster, bytes(data))
    cluster.check()
