"""Lacuna: a Kafka-compatible log with transactions whose records live in an object store."""
