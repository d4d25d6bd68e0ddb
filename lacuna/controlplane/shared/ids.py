"""How ids of topics and clusters are written."""

from base64 import urlsafe_b64encode


def show_id(identifier: bytes) -> str:
    """16 bytes as Kafka's tools write them: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(identifier).decode().rstrip("=")
