"""The text form of ids of topics and clusters."""

from base64 import urlsafe_b64encode


def show_id(identifier: bytes) -> str:
    """Return 16 bytes in the form of Kafka's tools: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(identifier).decode().rstrip("=")
