"""Kafka's protocol messages as typed values, read from and written to bytes in each version."""
