"""Copies topics, records, groups and permissions from another Kafka cluster, with the same offsets (docs/import.md)."""
