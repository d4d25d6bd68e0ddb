"""What a compaction is asked to do."""

from dataclasses import dataclass
from typing import Final

from logstore.records.compression import check_level
from logstore.records.layout import Codec
from pipeline.errors import PipelineError
from pipeline.loading import BLOCK_BYTES

#: An extent, and so a run, is at most so large: what a fetch reads at once.
LARGEST_BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    """What a task has to know. Sizes in bytes.

    `segment_bytes` bounds an object, and with it a task's memory, which holds one until it is written;
    `batch_bytes` a batch before compression. `codec` None: batches keep theirs. `level` None: the
    codec's own.
    """

    segment_bytes: int = 64 << 20
    batch_bytes: int = 256 << 10
    block_bytes: int = BLOCK_BYTES
    codec: Codec | None = None
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """Sizes in bytes, times in milliseconds.

    Neighbours smaller than `small_bytes` are joined; `rewrites_all` rewrites what is large and live,
    too (a codec to change). `task_bytes` is the most live payload of a task; those of a small plan have
    less. What became stable less than `min_age_ms` ago is left alone. `max_extents` of one plan; 0: as
    many as the control plane allows. Partitions of which less than `threshold` (0 to 1) is wasted wait;
    see PlannedRange.waste. What changed meanwhile is planned and tried again, `attempts` times in all.
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
        """Raises PipelineError for what cannot be done."""
        rewrite = self.rewrite
        if not 1 << 10 <= rewrite.batch_bytes <= LARGEST_BATCH_BYTES:
            raise PipelineError(
                f"batches of {rewrite.batch_bytes} bytes: choose from 1024 to {LARGEST_BATCH_BYTES}, "
                "which is what one read of an agent brings"
            )
        if rewrite.segment_bytes < LARGEST_BATCH_BYTES:
            raise PipelineError(
                f"segments of {rewrite.segment_bytes} bytes: choose {LARGEST_BATCH_BYTES} or more"
            )
        if rewrite.level is not None:
            _check_level(rewrite.codec, rewrite.level)
        if self.task_bytes < 1:
            raise PipelineError("a task rewrites at least one byte: choose a larger --task-bytes")


def _check_level(codec: Codec | None, level: int) -> None:
    if codec is None:
        raise PipelineError("a level is one of a codec's: name it with --codec")
    try:
        check_level(codec, level)
    except ValueError as error:
        raise PipelineError(f"level {level}: {error}") from error
