"""Tests reading from a data folder to verified bytes, and which parts of a damaged piece are kept."""

import shutil
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.records.batch import BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.kernel import walk_and_patch, walk_stored
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.loading import load_blocks
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.salvage import intact_in
from lacuna.pipeline.stores import check_store, shared_store
from lacuna.testing import Cluster
from tests.pipeline.conftest import control_of, transact

_TRANSACTIONS = [
    (True, [(b"a", b"1"), (b"b", b"2")]),
    (False, [(b"c", b"x" * 100)] * 50),
    (True, [(b"d", None)]),
    (False, [(b"e", b"y")]),
]


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["directory", "moto"], indirect=True)
def test_s14_the_pieces_of_a_partition_hold_its_committed_records(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests rules S14 and S16."""
    from lacuna.operating.moto import CREDENTIALS

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    topic = cluster.create_topic("foundation")
    written = transact(cluster, topic, _TRANSACTIONS)
    location = find_cluster(data=str(cluster.data))
    assert location.store == cluster.store_url
    with JobClient(location.require_control()) as control:
        topic_id = control.topics()[topic].topic_id
        (log,) = control.partition_logs([(topic_id, 0)])
        assert check_store(location.store, control.cluster_id) == control.cluster_id
        cluster_id = control.cluster_id
    assert log.log_start_offset == 0
    assert log.last_stable_offset == log.high_watermark > 53
    store = shared_store(location.store)
    before = store.metrics.bytes_read
    found = {
        record.offset: (record.key, record.value)
        for block in load_blocks(store, cluster_id, log.pieces(0, log.last_stable_offset))
        for batch in read_batches(block.data)
        if not batch.header.is_control
        for record in batch.records()
    }
    assert found == written.committed
    assert store.metrics.bytes_read - before < 1000  # the aborted ones were not read


@pytest.mark.parametrize("cluster", ["directory", "moto"], indirect=True)
def test_errors_name_the_object(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("errors")
    with control_of(cluster) as control:
        (log,) = control.partition_logs([(control.topics()[topic].topic_id, 0)])
        assert list(log.pieces(0, 1 << 60)) == []
    with pytest.raises(PipelineError, match="no cluster is running on the data folder"):
        find_cluster(data=str(tmp_path))
    with pytest.raises(PipelineError, match="no bucket is specified"):
        find_cluster(control="127.0.0.1:1", environment={})
    with pytest.raises(PipelineError, match="there is no folder"):
        check_store(f"file://{tmp_path}/nothing")
    with pytest.raises(PipelineError, match="there is no cluster in the bucket"):
        check_store(f"file://{tmp_path}")


def test_a_store_whose_folder_is_gone_does_not_fail_the_next_one(tmp_path: Path) -> None:
    gone, *others = folders = [tmp_path / name for name in ("gone", *map(str, range(9)))]
    for folder in folders:
        folder.mkdir()
    lost = shared_store(f"file://{gone}")
    lost.put("a", [b"1"])
    shutil.rmtree(gone)
    opened = [shared_store(f"file://{folder}") for folder in others]
    assert len({id(store) for store in opened}) == 9
    assert shared_store(f"file://{others[8]}") is opened[8]
    gone.mkdir()
    assert shared_store(f"file://{gone}") is not lost


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "a folder"
    with pytest.raises(PipelineError, match=f"there is no folder {missing}"):
        shared_store(f"file://{tmp_path}/a%20folder")
    assert not missing.exists()


#: The numbers of records of the batches of a piece, and how many offsets lie behind each where it has true offsets.
_COUNTS = (3, 1, 4, 2, 5)
_GAP = 10
_POSITION = 50
_BASE = 100


def _batch(count: int, base_offset: int = 0) -> bytes:
    records = tuple(NewRecord(offset_delta=at, timestamp=5, value=b"value") for at in range(count))
    return BatchToWrite(records=records, base_offset=base_offset).encode()


class _Sound:
    """A piece as written: its bytes, the bounds of its batches, and their first offsets."""

    def __init__(self, *, has_true_offsets: bool) -> None:
        gap = _GAP if has_true_offsets else 0
        self.firsts = list(accumulate((count + gap for count in _COUNTS), initial=_BASE))
        batches = [
            _batch(count, first if has_true_offsets else 0)
            for count, first in zip(_COUNTS, self.firsts, strict=False)
        ]
        self.edges = list(accumulate(map(len, batches), initial=0))
        self.data = b"".join(batches)
        flags = FLAG_TRUE_OFFSETS if has_true_offsets else 0
        self.piece = Piece(1, 1, _POSITION, len(self.data), _BASE, self.firsts[-1], flags)

    def end_of(self, batch: int) -> int:
        """Return the offset after the records of a batch."""
        return self.firsts[batch] + _COUNTS[batch]


@pytest.mark.parametrize("has_true_offsets", [False, True])
@pytest.mark.parametrize("damaged", [(0,), (2,), (4,), (1, 3), (0, 4), (0, 1, 2, 3, 4)])
def test_what_is_before_and_behind_the_damage(
    has_true_offsets: bool, damaged: tuple[int, ...]
) -> None:
    sound = _Sound(has_true_offsets=has_true_offsets)
    data = bytearray(sound.data)
    for batch in damaged:
        data[sound.edges[batch + 1] - 1] ^= 1
    before, behind = damaged[0], damaged[-1] + 1
    expected = []
    if before:
        end = sound.end_of(before - 1)
        expected.append(sound.piece._replace(size=sound.edges[before], next_offset=end))
    if behind < len(_COUNTS):
        edge = sound.edges[behind]
        expected.append(
            sound.piece._replace(
                position=_POSITION + edge, size=len(data) - edge, base_offset=sound.firsts[behind]
            )
        )
    assert intact_in(data, sound.piece) == expected


@pytest.mark.parametrize("has_true_offsets", [False, True])
@given(data=st.data())
def test_any_damage_leaves_only_what_was_written(
    has_true_offsets: bool, data: st.DataObject
) -> None:
    """Any bytes may be wrong, including sizes and counts. Every part that is kept is unchanged and at its own offsets.

    The base offset of a batch with true offsets is not covered by its checksum, so the test does not change it.
    """
    sound = _Sound(has_true_offsets=has_true_offsets)
    wrong = bytearray(sound.data)
    starts = {at for edge in sound.edges[:-1] for at in range(edge, edge + 8)}
    places = st.integers(0, len(wrong) - 1).filter(lambda at: at not in starts)
    for at in data.draw(st.sets(places, min_size=1, max_size=4)):
        wrong[at] ^= data.draw(st.integers(1, 255))
    walk = walk_stored if has_true_offsets else walk_and_patch
    for part in intact_in(bytearray(wrong), sound.piece):
        at = part.position - _POSITION
        kept = wrong[at : at + part.size]
        first = sound.edges.index(at)
        assert at + part.size in sound.edges
        walked = walk(bytearray(kept), part.base_offset)
        assert list(walked.base_offsets) == sound.firsts[first : first + len(walked)]
        assert walked.last_offsets[-1] < part.next_offset <= sound.firsts[first + len(walked)]


def test_batches_that_do_not_add_up_are_not_used() -> None:
    """Each is intact, but one is missing, and it is unknown which."""
    sound = _Sound(has_true_offsets=False)
    data = bytearray(sound.data[: sound.edges[2]] + sound.data[sound.edges[3] :])
    assert intact_in(data, sound.piece._replace(size=len(data))) == []
