"""Segments, the objects that hold batches of many partitions, and the keys of all objects."""

from lacuna.logstore.segments.later import JournalEnd, LaterSegment, find_later
from lacuna.logstore.segments.layout import CorruptSegmentError
from lacuna.logstore.segments.marker import (
    ClusterMarker,
    ForeignStoreError,
    claim_store,
    read_marker,
)
from lacuna.logstore.segments.merge import LiveRange, MergedRun, MergeOptions, merge_ranges
from lacuna.logstore.segments.paths import (
    InvalidPathError,
    MetadataName,
    SegmentId,
    lease_prefix,
    metadata_prefix,
    parse_metadata_key,
    parse_segment_key,
    segment_key,
    segments_prefix,
)
from lacuna.logstore.segments.reader import (
    SegmentFooter,
    SegmentSlice,
    open_segment,
)
from lacuna.logstore.segments.writer import SliceInput, WrittenSegment, WrittenSlice, write_segment

__all__ = [
    "ClusterMarker",
    "CorruptSegmentError",
    "ForeignStoreError",
    "InvalidPathError",
    "JournalEnd",
    "LaterSegment",
    "LiveRange",
    "MergeOptions",
    "MergedRun",
    "MetadataName",
    "SegmentFooter",
    "SegmentId",
    "SegmentSlice",
    "SliceInput",
    "WrittenSegment",
    "WrittenSlice",
    "claim_store",
    "find_later",
    "lease_prefix",
    "merge_ranges",
    "metadata_prefix",
    "open_segment",
    "parse_metadata_key",
    "parse_segment_key",
    "read_marker",
    "segment_key",
    "segments_prefix",
    "write_segment",
]
