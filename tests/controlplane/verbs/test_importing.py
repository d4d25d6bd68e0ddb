"""Tests records from another cluster: at their offsets, with holes, once, and in topics that accept nothing else."""

from typing import Any, Final

import pytest

from lacuna.controlplane.shared.batches import SLICE_VERDICT
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import (
    EXTENT_ROW,
    FLAG_ABORTED_BEFORE,
    FLAG_TRUE_OFFSETS,
    ExtentTable,
)
from lacuna.controlplane.state.front import check_front
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from lacuna.controlplane.v1.log_pb2 import (
    DeleteRecords,
    DeleteRecordsPartition,
    ImportedSlice,
    ImportSegment,
    PlanMerge,
    ReadPartitions,
    SegmentCommitted,
    SegmentId,
)
from tests.controlplane.verbs.cluster import Cluster

SOURCE: Final = "other/topic"
DELETE, SET = 1, 0


class Importer(Cluster):
    """Imports records into the mirror topic `a`."""

    def __init__(self) -> None:
        super().__init__()
        self.create("a", 2, mirror_source=SOURCE)

    def rows(self, *ranges: tuple[int, int], **changed: Any) -> bytes:
        """Return extents with these offsets in the next segment, 100 bytes each."""
        identity = {"producer_id": -1, "transaction": 0, "flags": FLAG_TRUE_OFFSETS, **changed}
        return b"".join(
            EXTENT_ROW.pack(
                self.lease_id,
                self.sequence + 1,
                100 * index,
                100,
                *each,
                self.now_ms,
                identity["producer_id"],
                -1,
                identity["transaction"],
                identity["flags"],
            )
            for index, each in enumerate(ranges)
        )

    def imported(
        self, first: int, end: int, *ranges: tuple[int, int], **changed: Any
    ) -> ImportSegment:
        """Return the command that appends these ranges to a-0. The rest of [first, end) consists of holes."""
        given = ImportedSlice(
            partition=self.partition(changed.pop("partition", "a-0")),
            source=changed.pop("source", SOURCE),
            first_offset=first,
            end_offset=end,
            extents=self.rows(*ranges, **changed),
            next_epoch=4,
        )
        self.sequence += 1
        segment = SegmentId(lease_id=self.lease_id, sequence=self.sequence)
        return ImportSegment(segment=segment, object_size=100 * len(ranges), slices=[given])

    def take(self, command: ImportSegment) -> int:
        """Return the verdict on the command's slice, or the error for the whole command."""
        answer = self.do("import_segment", command)
        if not isinstance(answer, SegmentCommitted) or answer.error_code:
            return int(answer.error_code)
        ((code, _, _),) = SLICE_VERDICT.iter_unpack(answer.slices)
        return int(code)

    def bounds(self) -> tuple[int, int, int]:
        (state,) = self.do(
            "read_partitions", ReadPartitions(partitions=[self.partition("a-0")])
        ).partitions
        return state.log_start_offset, state.last_stable_offset, state.high_watermark


@pytest.fixture
def cluster() -> Importer:
    return Importer()


def test_s1_s3_records_keep_their_offsets_and_what_lies_between_is_a_hole(
    cluster: Importer,
) -> None:
    assert cluster.take(cluster.imported(0, 20, (5, 8), (10, 12))) == ErrorCode.NONE
    assert cluster.bounds() == (0, 20, 20)
    assert cluster.take(cluster.imported(20, 30)) == ErrorCode.NONE  # a hole needs no object
    assert cluster.take(cluster.imported(30, 31, (30, 31))) == ErrorCode.NONE
    found = cluster.found("a-0")
    assert list(zip(found.extents.base_offsets, found.extents.next_offsets, strict=True)) == [
        (5, 8),
        (10, 12),
        (30, 31),
    ]
    assert (cluster.bounds(), found.size_bytes, found.next_epoch) == ((0, 31, 31), 300, 4)
    assert len(cluster.state.segments) == 2
    cluster.check()


def test_s14_what_the_source_has_aborted_is_dead_and_stays_until_the_mirror_is_promoted(
    cluster: Importer,
) -> None:
    aborted = FLAG_TRUE_OFFSETS | FLAG_ABORTED_BEFORE
    assert cluster.take(cluster.imported(0, 3, (0, 1), (1, 3))) == ErrorCode.NONE
    assert cluster.take(cluster.imported(3, 9, (4, 6), (6, 8), flags=aborted)) == ErrorCode.NONE
    assert cluster.take(cluster.imported(9, 10, (9, 10))) == ErrorCode.NONE
    found = cluster.found("a-0")
    assert (list(found.dead.firsts), list(found.dead.ends)) == ([4], [8])
    plan = PlanMerge(
        lease_id=cluster.lease_id, max_bytes=1 << 20, small_bytes=1 << 10, min_extents=2
    )
    (live,) = cluster.do("plan_merge", plan).partitions
    assert list(ExtentTable.from_columns(live.extents).base_offsets) == [0, 1]
    alter = AlterTopicConfigs(
        name="a", changes=[ConfigChange(name="mirror.source", operation=DELETE)]
    )
    cluster.do("alter_topic_configs", alter)
    (every,) = cluster.do("plan_merge", plan).partitions
    assert list(ExtentTable.from_columns(every.extents).base_offsets) == [0, 1, 4, 6, 9]
    cluster.check()


def test_s4_a_slice_that_does_not_begin_at_the_end_changes_nothing(cluster: Importer) -> None:
    first = cluster.imported(0, 10, (0, 10))
    assert cluster.take(first) == ErrorCode.NONE
    assert cluster.take(first) == ErrorCode.NONE  # the answer was lost
    assert cluster.take(cluster.imported(0, 10, (0, 10))) == ErrorCode.PLAN_STALE
    assert cluster.take(cluster.imported(11, 12, (11, 12))) == ErrorCode.PLAN_STALE
    assert cluster.bounds() == (0, 10, 10)
    cluster.check()


def test_s6_a_mirror_accepts_imported_records_only_until_it_is_promoted(cluster: Importer) -> None:
    assert cluster.put("a-0") == "POLICY_VIOLATION"
    alter = AlterTopicConfigs(name="a", replaces_all=True)
    assert not cluster.do("alter_topic_configs", alter).error_code
    assert cluster.put("a-0") == "POLICY_VIOLATION", "tools that set all configs promote nothing"
    assert cluster.take(cluster.imported(0, 7, (0, 5))) == ErrorCode.NONE
    alter = AlterTopicConfigs(
        name="a", changes=[ConfigChange(name="mirror.source", operation=DELETE)]
    )
    assert not cluster.do("alter_topic_configs", alter).error_code
    assert cluster.take(cluster.imported(7, 8, (7, 8))) == ErrorCode.POLICY_VIOLATION
    assert cluster.put("a-0", 2) == 7
    cluster.check()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"source": "other/older"}, ErrorCode.POLICY_VIOLATION),
        ({"source": ""}, ErrorCode.POLICY_VIOLATION),
        ({"partition": "a-2"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": "none-0"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_s6_the_topic_must_mirror_that_source(
    cluster: Importer, changed: dict[str, str], code: ErrorCode
) -> None:
    assert cluster.take(cluster.imported(0, 1, (0, 1), **changed)) == code
    assert cluster.bounds() == (0, 0, 0)
    cluster.check()


@pytest.mark.parametrize(
    "malformed",
    [
        lambda cluster: cluster.imported(0, 0),
        lambda cluster: cluster.imported(-1, 5),
        lambda cluster: cluster.imported(0, 5, (0, 6)),
        lambda cluster: cluster.imported(2, 5, (1, 5)),
        lambda cluster: cluster.imported(0, 5, (2, 4), (3, 5)),
        lambda cluster: cluster.imported(0, 5, (2, 2)),
        lambda cluster: cluster.imported(0, 5, (0, 5), producer_id=7),
        lambda cluster: cluster.imported(0, 5, (0, 5), transaction=1),
        lambda cluster: cluster.imported(0, 5, (0, 5), flags=0),
    ],
)
def test_what_could_never_be_valid_is_refused_as_a_whole(cluster: Importer, malformed: Any) -> None:
    assert cluster.take(malformed(cluster)) == ErrorCode.INVALID_REQUEST
    assert cluster.bounds() == (0, 0, 0)
    cluster.check()


def test_an_ended_lease_commits_nothing(cluster: Importer) -> None:
    command = cluster.imported(0, 1, (0, 1))
    command.segment.lease_id = 99
    assert cluster.take(command) == ErrorCode.LEASE_EXPIRED


def test_a_log_that_begins_late_is_no_loss_and_is_merged_like_others(cluster: Importer) -> None:
    assert cluster.take(cluster.imported(0, 1_000)) == ErrorCode.NONE
    for first in range(1_000, 1_004):
        cluster.take(cluster.imported(first, first + 1, (first, first + 1)))
    check_front(cluster.found("a-0"))
    deleted = DeleteRecordsPartition(partition=cluster.partition("a-0"), before_offset=1_002)
    cluster.do("delete_records", DeleteRecords(partitions=[deleted]))
    assert cluster.bounds() == (1_002, 1_004, 1_004)
    plan = cluster.do(
        "plan_merge",
        PlanMerge(lease_id=cluster.lease_id, max_bytes=1 << 20, small_bytes=1 << 10, min_extents=2),
    )
    assert [
        list(ExtentTable.from_columns(each.extents).base_offsets) for each in plan.partitions
    ] == [[1_002, 1_003]]
    cluster.check()
