"""The answer of the ACL APIs, given that there is no authorizer."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode

DISABLED: Final = ErrorCode.SECURITY_DISABLED
NO_AUTHORIZER: Final = "No Authorizer is configured."
