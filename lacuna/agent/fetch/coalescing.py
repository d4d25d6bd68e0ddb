"""Coalesces spans of small batches into large batches (S19). Has no side effects.

To bound the cost, at most COALESCE_SOURCE_BYTES (or one piece) are coalesced at a time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from lacuna.agent.fetch.buffers import ReadBuffer
from lacuna.agent.fetch.loading import ExtentCorruptError
from lacuna.agent.fetch.stretch import Span
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.kernel import walk_stored
from lacuna.logstore.records.layout import WalkedBatches
from lacuna.logstore.records.rewriting import coalesce

COALESCE_SOURCE_BYTES: Final = 1 << 20
COALESCED_BATCH_BYTES: Final = 64 * 1024


def coalescible(spans: Sequence[Span]) -> Iterator[Span | list[Span]]:
    """Yield the spans in order. Consecutive spans of small batches are yielded as a list, to be coalesced together.

    Long spans of small batches are first cut into parts. A small batch that stands alone is yielded unchanged.
    """
    group: list[Span] = []
    size = 0
    for span in spans:
        is_small = span.is_small
        for part in _in_parts(span) if is_small else (span,):
            if group and not (is_small and size + part.size <= COALESCE_SOURCE_BYTES):
                yield _one_or_all(group)
                group, size = [], 0
            if is_small:
                group.append(part)
                size += part.size
            else:
                yield part
    if group:
        yield _one_or_all(group)


def coalesced(group: Sequence[Span]) -> tuple[ReadBuffer, WalkedBatches]:
    """Return the group's records in fewer batches, with their columns. Raises ExtentCorruptError."""
    first = group[0]
    base_offset = first.stretch.base_offsets[first.first]
    data = ReadBuffer()
    try:
        for batch in coalesce([span.view for span in group], -1, COALESCED_BATCH_BYTES):
            data += batch
        return data, walk_stored(data, base_offset, False)
    except (RecordsError, ValueError) as error:
        raise ExtentCorruptError(
            f"the batches that start at offset {base_offset} cannot be coalesced: {error}"
        ) from error


def _one_or_all(group: list[Span]) -> Span | list[Span]:
    first = group[0]
    return first if len(group) == 1 and first.end - first.first == 1 else group


def _in_parts(span: Span) -> Iterator[Span]:
    if span.size <= COALESCE_SOURCE_BYTES:
        yield span
        return
    ends = list(accumulate(span.pieces.sizes))
    first = before = 0
    while first < len(ends):
        end = max(bisect_right(ends, before + COALESCE_SOURCE_BYTES, first), first + 1)
        yield _part(span, span.first_piece + first, span.first_piece + end)
        first, before = end, ends[end - 1]


def _part(span: Span, first: int, end: int) -> Span:
    part = span.stretch.part(first, end)
    assert part is not None, "every piece that was read has a batch"
    return part
