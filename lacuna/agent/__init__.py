"""Serves Kafka clients: connections, one file per API, produce/ and fetch/."""
