"""Recognizes clients of other protocols on the Kafka port by the first bytes of a connection.

A Kafka request begins with its size, four bytes. Read as a size, the first bytes of other protocols exceed any limit
(369,295,617 for a TLS client), and an error with that number would not help an operator.
"""

from typing import Final

_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")
_BEGINNINGS: Final = {
    b"PRI ": "this is an HTTP/2 or gRPC client, but only Kafka clients are served here",
    b"SSH-": "this is an SSH client, but only Kafka clients are served here",
}


def stranger(beginning: bytes) -> str:
    """Describe in a sentence the client whose connection begins with these four bytes; "" if it is unknown."""
    if beginning.startswith(_TLS_HANDSHAKE):
        return (
            "this is a TLS client, but this listener has no TLS: set its security.protocol to "
            "PLAINTEXT or SASL_PLAINTEXT, or connect to a listener with TLS"
        )
    if beginning in _HTTP:
        return "this is an HTTP client, but only Kafka clients are served here"
    return _BEGINNINGS.get(beginning, "")
