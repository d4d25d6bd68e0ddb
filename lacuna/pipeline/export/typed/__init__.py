"""Decodes keys and values into typed columns, by a JSON Schema, an Avro schema or a Protobuf message."""
