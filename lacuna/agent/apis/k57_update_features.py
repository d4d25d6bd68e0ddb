"""UpdateFeatures v0-v2 (KIP-584, KIP-778): features cannot be changed.

Setting a feature to its current level succeeds. Another level, an unknown feature or an unknown type of upgrade returns
INVALID_UPDATE_VERSION for the whole request, as in Kafka. So does a downgrade, since the existing state could not be
read at a lower level.
"""

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.apis.k18_api_versions import FEATURES
from lacuna.agent.guards.guard import on_cluster
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import shorten
from lacuna.wire.messages.update_features import (
    UPDATE_FEATURES_REQUEST,
    UPDATE_FEATURES_RESPONSE,
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_FAILED = "The update failed for all features since the following feature had an error: "


async def handle(_call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Accept all updates, or reject the whole request."""
    for update in request.feature_updates:
        problem = _problem(update)
        if problem:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=_FAILED + problem
            )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(update.feature, ErrorCode.NONE, "NONE")
            for update in request.feature_updates
        ],
    )


def _problem(update: FeatureUpdateKey) -> str:
    wanted, name = update.max_version_level, shorten(update.feature)
    says = f"Invalid update version {wanted} for feature {name}."
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{says} The controller does not support the given upgrade type."
    if update.feature not in FEATURES:
        return f"{says} This feature is not supported here."
    if wanted != FEATURES[update.feature]:
        return f"{says} It is at level {FEATURES[update.feature]}, which cannot be changed."
    return ""


API = Api(
    request=UPDATE_FEATURES_REQUEST,
    response=UPDATE_FEATURES_RESPONSE,
    max_version=2,
    handle=handle,
    refuse=error_in(UPDATE_FEATURES_RESPONSE),
    guard=on_cluster(Operation.ALTER),
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="features keep their levels; another level returns INVALID_UPDATE_VERSION",
)
