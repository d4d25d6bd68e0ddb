from array import array

from typing_extensions import Buffer

from lacuna.logstore.records.layout import WalkedPieces

def walk_pieces(
    buffer: Buffer,
    starts: array[int],
    base_offsets: array[int],
    next_offsets: array[int],
    true_offsets: array[int],
    verify: bool,
) -> WalkedPieces: ...
