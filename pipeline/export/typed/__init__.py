"""Keys and values as typed columns, by a JSON Schema, an Avro schema or a Protobuf message."""
