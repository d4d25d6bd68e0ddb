"""Kafka's protocol messages: typed values that are read from and written to bytes at each version."""
