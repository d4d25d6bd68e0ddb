"""Segments: the objects that hold the batches of many partitions, and every object key."""

from logstore.segments.layout import CorruptSegmentError, SegmentIdentity
from logstore.segments.marker import ClusterMarker, ForeignStoreError, claim_store, read_marker
from logstore.segments.merge import LiveRange, MergedRun, MergeOptions, merge_ranges
from logstore.segments.paths import (
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
from logstore.segments.reader import (
    SegmentFooter,
    SegmentSlice,
    batches_in,
    check_segment,
    open_segment,
    parse_end,
)
from logstore.segments.writer import SliceInput, WrittenSegment, WrittenSlice, write_segment

__all__ = [
    "ClusterMarker",
    "CorruptSegmentError",
    "ForeignStoreError",
    "InvalidPathError",
    "LiveRange",
    "MergeOptions",
    "MergedRun",
    "MetadataName",
    "SegmentFooter",
    "SegmentId",
    "SegmentIdentity",
    "SegmentSlice",
    "SliceInput",
    "WrittenSegment",
    "WrittenSlice",
    "batches_in",
    "check_segment",
    "claim_store",
    "lease_prefix",
    "merge_ranges",
    "metadata_prefix",
    "open_segment",
    "parse_end",
    "parse_metadata_key",
    "parse_segment_key",
    "read_marker",
    "segment_key",
    "segments_prefix",
    "write_segment",
]
