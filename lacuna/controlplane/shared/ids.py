"""Formats the ids of topics and clusters."""

from base64 import urlsafe_b64encode


def show_id(identifier: bytes) -> str:
    """Return a 16-byte id as Kafka's tools show it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(identifier).decode().rstrip("=")
