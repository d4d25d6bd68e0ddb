"""From a schema to what decodes byte strings by it."""

from functools import lru_cache

from pipeline.export.typed.schema import Decoder, TypedSchema


@lru_cache(maxsize=16)
def decoder_of(schema: TypedSchema) -> Decoder:
    """Made once in each process; a library is imported only for a schema of its kind."""
    if schema.kind == "json":
        from pipeline.export.typed.json_schema import json_decoder

        return json_decoder(schema)
    if schema.kind == "avro":
        from pipeline.export.typed.avro import avro_decoder

        return avro_decoder(schema)
    from pipeline.export.typed.protobuf import protobuf_decoder

    return protobuf_decoder(schema)
