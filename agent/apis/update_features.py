"""UpdateFeatures v0-v2 (KIP-584, KIP-778): features are as they are.

To set a feature to the level that it has succeeds. Another level, an unknown feature or an unknown type of upgrade is
INVALID_UPDATE_VERSION for the whole request, as in Kafka; a downgrade too, since old state could not be read as what it
would be then.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.api_versions import FEATURES
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from controlplane.topic_configs import shorten

if TYPE_CHECKING:
    from agent.context import AgentContext

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_LAST_WITH_RESULTS = 1
_FAILED = "The update failed for all features since the following feature had an error: "


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """All, or none."""
    for update in request.feature_updates:
        problem = _problem(update)
        if problem:
            return _answer(request, KafkaError.invalid_update_version, _FAILED + problem)
    return _answer(request, KafkaError.none, None)


def refuse(request: Any, error_code: int) -> Any:
    """The error."""
    return _answer(request, error_code, None)


def _problem(update: Any) -> str:
    wanted, name = update.max_version_level, shorten(update.feature)
    says = f"Invalid update version {wanted} for feature {name}."
    if getattr(update, "upgrade_type", UPGRADE) not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{says} The controller does not support the given upgrade type."
    if update.feature not in FEATURES:
        return f"{says} This feature is not supported here."
    if wanted != FEATURES[update.feature]:
        return f"{says} It is at {FEATURES[update.feature]} and stays there."
    return ""


def _answer(request: Any, error_code: int, message: str | None) -> Any:
    results: dict[str, Any] = {}
    if version_of(request) <= _LAST_WITH_RESULTS:
        results["results"] = tuple(
            build(
                request,
                "UpdatableFeatureResult",
                feature=update.feature,
                error_code=KafkaError.none,
                error_message="NONE",
            )
            for update in (() if error_code else request.feature_updates)
        )
    return build(
        request,
        "UpdateFeaturesResponse",
        error_code=error_code,
        error_message=message,
        **results,
    )


API = Api(
    key=57,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
    notes="features stay as they are: another level is INVALID_UPDATE_VERSION",
)
