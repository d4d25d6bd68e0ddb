"""Decodes keys and values into typed columns, according to a JSON Schema, an Avro schema or a Protobuf message."""
