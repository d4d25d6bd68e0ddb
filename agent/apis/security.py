"""What APIs of an authorizer answer where there is none."""

from typing import Final

from kio.schema.errors import ErrorCode as KafkaError

DISABLED: Final = KafkaError.security_disabled
NO_AUTHORIZER: Final = "No Authorizer is configured."
