from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.datasource.options import LOCATION_OPTIONS, OptionError, Options
from lacuna.pipeline.location import ClusterLocation

_KNOWN: Final = (*LOCATION_OPTIONS, "topic", "compression", "transactionalId", "batchId")
_HINTS: Final = {
    "includeHeaders": "headers are written if there is a column 'headers': leave the option out",
    "kafka.compression.type": "use compression=lz4 (the default), zstd, gzip, snappy or none",
    "kafka.transactional.id": "use transactionalId, or leave it out, in which case the sink creates one",
}
_CODECS: Final = {
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "none": Codec.NONE,
}
_LONGEST_ID: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The checked options for writing. They are sent to tasks, so they contain addresses rather than data folders.

    `topic` is the topic of all rows, or None if each row names its own. `codec` is used for topics that set none. A
    batch write with both a `transactional_id` and a `batch_id` is committed only once, however often it is repeated.
    """

    location: ClusterLocation
    topic: str | None
    codec: Codec
    transactional_id: str | None
    batch_id: int | None


def read_options(given: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """Checks the options for a write. Option names are not case-sensitive. Raises PipelineError."""
    options = Options(given)
    options.check_names(_KNOWN, _HINTS)
    for name in ("topic", "transactionalId"):
        if options.text(name) == "":
            raise OptionError(f"option {name} is empty: specify a value, or omit the option")
    transactional_id = options.text("transactionalId")
    if transactional_id is not None and len(transactional_id) > _LONGEST_ID:
        raise OptionError(f"option transactionalId: the maximum is {_LONGEST_ID} characters")
    return SinkOptions(
        location=options.location(needs_control=True),
        topic=options.text("topic"),
        codec=_CODECS[options.one_of("compression", tuple(_CODECS), "lz4")],
        transactional_id=transactional_id,
        batch_id=_batch_id(options, is_streaming),
    )


def _batch_id(options: Options, is_streaming: bool) -> int | None:
    batch_id = options.integer("batchId", minimum=0)
    if batch_id is None:
        return None
    if is_streaming:
        raise OptionError(
            "option batchId: a streaming query numbers its own batches; leave the option out"
        )
    if "transactionalId" not in options:
        raise OptionError(
            "option batchId: different writers may use the same batch ids, so also specify a "
            "transactionalId that is unique to each write in the program"
        )
    return batch_id
