"""CreateDelegationToken v1-v3: no token is given to who has not authenticated himself."""

from agent.apis.delegation_tokens import NO_TIME, NOTES, not_allowed
from agent.apis.registry import Api

API = Api(
    key=38,
    min_version=1,
    max_version=3,
    handle=not_allowed(
        "CreateDelegationTokenResponse",
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
    ),
    notes=NOTES,
)
