from dataclasses import dataclass
from typing import Final

from lacuna.logstore.records.compression import check_level
from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.loading import BLOCK_BYTES

#: The maximum size in bytes of a batch, extent or merged run: the most that a fetch reads at once.
LARGEST_BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    """The settings that a task needs. Sizes are in bytes.

    `segment_bytes` limits the size of an object, and thus the memory of a task, which holds an object until it is
    written. `batch_bytes` limits the size of a batch before compression, and `block_bytes` limits the size of a block
    that is read. If `codec` is None, batches keep their codec; if `level` is None, the codec's default level applies.
    """

    segment_bytes: int = 64 << 20
    batch_bytes: int = 256 << 10
    block_bytes: int = BLOCK_BYTES
    codec: Codec | None = None
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """The settings of a compaction. Sizes are in bytes, and times are in milliseconds.

    Neighbouring extents smaller than `small_bytes` are joined; with `rewrites_all`, large live extents are rewritten as
    well, for example to change the codec. A task reads up to `task_bytes`, or less in a small plan. Offsets that have
    been stable for less than `min_age_ms` are left alone. A plan covers up to `max_extents` extents (0: as many as the
    control plane allows). Partitions with a wasted share below `threshold` (0 to 1, see PlannedRange.waste) are
    skipped. A partition that changes in the meantime is tried up to `attempts` times in total.
    """

    rewrite: RewriteSettings = RewriteSettings()
    task_bytes: int = 256 << 20
    small_bytes: int = 512 << 10
    min_age_ms: int = 0
    rewrites_all: bool = False
    max_extents: int = 0
    threshold: float = 0.0
    attempts: int = 3

    def __post_init__(self) -> None:
        rewrite = self.rewrite
        if not 1 << 10 <= rewrite.batch_bytes <= LARGEST_BATCH_BYTES:
            raise PipelineError(
                f"batches of {rewrite.batch_bytes} bytes: choose a size from 1024 to "
                f"{LARGEST_BATCH_BYTES}, the largest that an agent can read"
            )
        if rewrite.segment_bytes < LARGEST_BATCH_BYTES:
            raise PipelineError(
                f"segments of {rewrite.segment_bytes} bytes are too small: choose {LARGEST_BATCH_BYTES} or more"
            )
        if rewrite.level is not None:
            _check_level(rewrite.codec, rewrite.level)
        if self.task_bytes < 1:
            raise PipelineError(
                "a task must rewrite at least one byte: choose a larger --task-bytes"
            )


def _check_level(codec: Codec | None, level: int) -> None:
    if codec is None:
        raise PipelineError("a compression level needs a codec: specify one with --codec")
    try:
        check_level(codec, level)
    except ValueError as error:
        raise PipelineError(f"level {level}: {error}") from error
