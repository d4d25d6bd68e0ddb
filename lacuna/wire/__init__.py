"""Kafka's protocol messages: typed values, read from and written to bytes at each version."""
