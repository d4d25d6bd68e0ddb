"""DescribeDelegationToken v1-v3: there are no tokens to describe."""

from agent.apis.delegation_tokens import NOTES, not_allowed
from agent.apis.registry import Api

API = Api(
    key=41,
    min_version=1,
    max_version=3,
    handle=not_allowed(
        "DescribeDelegationTokenResponse",
        tokens=(),
    ),
    notes=NOTES,
)
