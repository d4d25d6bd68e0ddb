"""The agent, which serves Kafka clients."""
