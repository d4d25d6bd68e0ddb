"""What the APIs of delegation tokens (KIP-48) answer where connections are not authenticated.

Kafka gives a token to who has authenticated himself: on a listener without SASL, as here, each of them is
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from datetime import UTC, datetime
from typing import Final

from kio.schema.errors import ErrorCode as KafkaError

NOT_ALLOWED: Final = KafkaError.delegation_token_request_not_allowed
#: Kafka says -1, which kio cannot write. Nobody reads it beside an error.
NO_TIME: Final = datetime.fromtimestamp(0, UTC)
NOTES: Final = "connections are not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
