"""Answers of the delegation token APIs (KIP-48), given that connections are not authenticated.

Kafka issues tokens to authenticated clients only. On a listener without SASL, as here, it answers every request
with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode

NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
#: A time in an answer with an error, which clients ignore; Kafka answers -1.
NO_TIME: Final = 0
NOTES: Final = "connections are not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
