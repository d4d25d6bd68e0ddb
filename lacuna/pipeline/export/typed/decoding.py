"""Makes the decoder for a schema."""

from functools import lru_cache

from lacuna.pipeline.export.typed.schema import Decoder, TypedSchema


@lru_cache(maxsize=16)
def decoder_of(schema: TypedSchema) -> Decoder:
    """The decoder of a schema, kept for later calls in this process. Imports only the library for its kind.

    Raises PipelineError for an invalid schema.
    """
    if schema.kind == "json":
        from lacuna.pipeline.export.typed.json_schema import json_decoder

        return json_decoder(schema)
    if schema.kind == "avro":
        from lacuna.pipeline.export.typed.avro import avro_decoder

        return avro_decoder(schema)
    from lacuna.pipeline.export.typed.protobuf import protobuf_decoder

    return protobuf_decoder(schema)
