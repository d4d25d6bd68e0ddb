"""Batches that a flush has just written, kept so that tailing consumers need not read them from the store."""

from array import array

from lacuna.agent.fetch.buffers import ReadBuffer
from lacuna.agent.fetch.loading import BATCH_OVERHEAD, LOAD_OVERHEAD, ExtentCorruptError
from lacuna.agent.fetch.stretch import Load, Stretch
from lacuna.controlplane.shared.log.pieces import Piece, Pieces
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.records.pieces import walk_pieces
from lacuna.wire.layout import Buffer

_PART_OVERHEAD = 300


class Fresh(Load):
    """Batches of one segment as they were produced, by position, until a fetch requests them."""

    __slots__ = ("_parts", "segment")

    def __init__(self, segment: tuple[int, int], parts: dict[int, Buffer]) -> None:
        super().__init__(
            LOAD_OVERHEAD + sum(map(len, parts.values())) + _PART_OVERHEAD * len(parts)
        )
        self.segment = segment
        self._parts = parts

    def take(self, partition: PartitionKey, piece: Piece, data: ReadBuffer) -> Load | None:
        """Move the batches of a piece to `data`, which must be empty, and return them, or None if a batch is missing.

        A piece can be taken only once. Raises ExtentCorruptError if a batch is damaged.
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
            raise ExtentCorruptError(f"{piece.describe()}: {walked.errors[0]}")
        load = Load(piece.size + BATCH_OVERHEAD * len(walked.base_offsets) + LOAD_OVERHEAD)
        pieces = Pieces.of([piece])
        load.stretches = [Stretch(memoryview(data), walked, load, partition, pieces, walked.firsts)]
        return load

    def _copy(self, position: int, size: int, data: ReadBuffer) -> bool:
        taken: list[Buffer] = []
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
