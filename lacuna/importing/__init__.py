"""Moves topics, records, groups and rights from another Kafka cluster, with their offsets (docs/import.md)."""
