"""What a flush has just written, for those who tail: they need not read it from the store."""

from array import array
from typing import TypeAlias

from agent.fetch.buffers import ReadBuffer
from agent.fetch.loading import BATCH_OVERHEAD, LOAD_OVERHEAD, ExtentCorruptError, describe
from agent.fetch.plan import Piece
from agent.fetch.stretch import Load, Stretch
from logstore.records.pieces import walk_pieces

Part: TypeAlias = bytes | bytearray | memoryview

_PART_OVERHEAD = 300


class Fresh(Load):
    """Batches of a segment as they were produced, by position, until somebody wants them."""

    __slots__ = ("_parts", "segment")

    def __init__(self, segment: tuple[int, int], parts: dict[int, Part]) -> None:
        super().__init__(
            LOAD_OVERHEAD + sum(map(len, parts.values())) + _PART_OVERHEAD * len(parts)
        )
        self.segment = segment
        self._parts = parts

    def take(self, piece: Piece, data: ReadBuffer) -> Stretch | None:
        """The batches of a piece, copied to the empty `data`, once; None where one is missing.

        Raises ExtentCorruptError.
        """
        if not self._copy(piece.position, piece.size, data):
            return None
        # The producer's bytes were checked before they were written.
        walked = walk_pieces(
            data,
            array("q", (0, piece.size)),
            array("q", (piece.base_offset,)),
            array("q", (piece.next_offset,)),
            array("q", (piece.has_true_offsets,)),
            False,
        )
        if walked.errors:
            raise ExtentCorruptError(f"{describe(piece)}: {walked.errors[0]}")
        load = Load(piece.size + BATCH_OVERHEAD * len(walked.base_offsets) + LOAD_OVERHEAD)
        return Stretch(memoryview(data), walked, load, [piece], walked.firsts)

    def _copy(self, position: int, size: int, data: ReadBuffer) -> bool:
        taken: list[Part] = []
        left = size
        while left > 0:
            part = self._parts.get(position + size - left)
            if part is None:
                return False
            taken.append(part)
            left -= len(part)
        if left < 0:
            return False
        for part in taken:
            del self._parts[position]
            position += len(part)
            data += part
        self.size -= size
        return True
