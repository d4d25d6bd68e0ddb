"""RenewDelegationToken v1-v2: there are no tokens to renew."""

from agent.apis.delegation_tokens import NO_TIME, NOTES, not_allowed
from agent.apis.registry import Api

API = Api(
    key=39,
    min_version=1,
    max_version=2,
    handle=not_allowed(
        "RenewDelegationTokenResponse",
        expiry_timestamp=NO_TIME,
    ),
    notes=NOTES,
)
