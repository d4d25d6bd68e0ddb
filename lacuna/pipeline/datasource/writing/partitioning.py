"""Chooses each row's partition: the one it names, the one for its key (hashed as in the Java client), or any."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.records.encoding import murmur2_partitions
from lacuna.pipeline.datasource.writing.columns import binary_column
from lacuna.pipeline.datasource.writing.topics import Target, Targets
from lacuna.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows without a key go to one partition for this many bytes, then to the next (the Java client's batch.size).
STICKY_BYTES: Final = 16 << 10
#: Bytes added to the size of each row's value, so that empty rows are spread as well.
_ROW_BYTES: Final = 16


class Partitioner:
    """Assigns slots to rows. `topic` is the topic of all rows, or None if each row names its own.

    `random(n)` returns an integer in [0, n), to choose the first partition for rows without a key.
    """

    def __init__(self, targets: Targets, topic: str | None, random: Callable[[int], int]) -> None:
        self._targets = targets
        self._topic = topic
        self._random = random
        #: topic id -> bytes of rows without a key so far, counted as if they had begun at partition 0
        self._stuck: dict[bytes, int] = {}

    def slots(self, rows: pa.RecordBatch) -> "NDArray[np.int32]":
        """Returns the rows' slots (see `Targets`). Raises PipelineError for an invalid topic, partition or key."""
        if self._topic is not None:
            return self._slots_in(self._targets.of(self._topic), rows)
        topics = rows.column("topic")
        if topics.null_count:
            raise PipelineError(
                "a row has no topic: its column 'topic' is null; fill it in, filter such rows out, or set "
                "the `topic` option"
            )
        encoded = topics.dictionary_encode()
        asking = rows.select(["key", "value", "partition"])
        slots = np.zeros(rows.num_rows, np.int32)
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            chosen = pc.equal(encoded.indices, number)
            slots[chosen.to_numpy(zero_copy_only=False)] = self._slots_in(
                self._targets.of(name), asking.filter(chosen)
            )
        return slots

    def _slots_in(self, target: Target, rows: pa.RecordBatch) -> "NDArray[np.int32]":
        keys, asked = rows.column("key"), rows.column("partition")
        if target.requires_keys and keys.null_count:
            raise PipelineError(
                f"topic {target.name!r} is compacted, so every record needs a key, but a row's "
                "key is null"
            )
        _check_asked(target, asked)
        count = target.partition_count
        partitions = np.zeros(rows.num_rows, np.int32)
        if count > 1 and asked.null_count:
            partitions = np.array(murmur2_partitions(binary_column(keys), len(keys), count))
            if keys.null_count:
                partitions[partitions < 0] = self._stick(target, rows.filter(keys.is_null()))
        if asked.null_count < len(asked):
            is_asked = asked.is_valid().to_numpy(zero_copy_only=False)
            partitions[is_asked] = asked.drop_null().to_numpy()
        return partitions + np.int32(target.first_slot)

    def _stick(self, target: Target, rows: pa.RecordBatch) -> "NDArray[np.int64]":
        begun = self._stuck.get(target.topic_id)
        if begun is None:
            begun = self._random(target.partition_count) * STICKY_BYTES
        lengths = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy()
        sizes = lengths.astype(np.int64) + _ROW_BYTES
        ends = begun + np.cumsum(sizes)
        self._stuck[target.topic_id] = int(ends[-1])
        partitions: NDArray[np.int64] = (ends - sizes) // STICKY_BYTES % target.partition_count
        return partitions


def _check_asked(target: Target, asked: pa.Array) -> None:
    if asked.null_count == len(asked):
        return
    bounds = pc.min_max(asked).as_py()
    for partition in bounds.values():
        if not 0 <= partition < target.partition_count:
            raise PipelineError(
                f"a row names partition {partition} of topic {target.name!r}, which has "
                f"{target.partition_count} partitions: choose 0 to {target.partition_count - 1}, or leave "
                "the column null"
            )
