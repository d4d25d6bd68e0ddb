class MalformedMessage(Exception):
    """The bytes do not match the message's layout."""
