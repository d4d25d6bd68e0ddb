"""The options of the sink, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from logstore.records.layout import Codec
from pipeline.datasource.options import LOCATION_OPTIONS, OptionError, Options
from pipeline.location import ClusterLocation

_KNOWN: Final = (*LOCATION_OPTIONS, "topic", "compression", "transactionalId", "batchId")
_HINTS: Final = {
    "includeHeaders": "headers are written where there is a column 'headers': leave it out",
    "kafka.compression.type": "say compression=lz4 (the default), zstd, gzip, snappy or none",
    "kafka.transactional.id": "say transactionalId, or leave it out: the sink makes its own",
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
    """What a write was told. It goes to the tasks, so it names addresses, no folders.

    `topic` is where every row goes, None where the rows say so. `codec` is for topics without one of their
    own. `transactional_id` and `batch_id` are None unless they were given; a batch write that has both is
    written once, however often it is repeated.
    """

    location: ClusterLocation
    topic: str | None
    codec: Codec
    transactional_id: str | None
    batch_id: int | None


def read_options(given: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """The options of one write, whatever the case of their names. Raises PipelineError."""
    options = Options(given)
    options.check_names(_KNOWN, _HINTS)
    for name in ("topic", "transactionalId"):
        if options.text(name) == "":
            raise OptionError(f"option {name} is empty: give it a value, or leave it out")
    transactional_id = options.text("transactionalId")
    if transactional_id is not None and len(transactional_id) > _LONGEST_ID:
        raise OptionError(f"option transactionalId: it has at most {_LONGEST_ID} characters")
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
        raise OptionError("option batchId: a streaming query numbers its batches itself")
    if "transactionalId" not in options:
        raise OptionError(
            "option batchId: it does not say whose batch that is; give transactionalId with it, "
            "another one in each place of a program that writes"
        )
    return batch_id
