"""The agent: serves Kafka clients."""
