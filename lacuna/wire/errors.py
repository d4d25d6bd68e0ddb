"""The error for bytes that are not a valid message."""


class MalformedMessage(Exception):
    """The bytes do not match the message's layout."""
