"""UpdateFeatures. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int8, Int16, Int32, String, messages


class FeatureUpdateKey(NamedTuple):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, In(until=0)] = False
    upgrade_type: Annotated[Int8, In(since=1)] = 1


class UpdateFeaturesRequest(NamedTuple):
    timeout_ms: Int32 = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: Annotated[Bool, In(since=1)] = False


class UpdatableFeatureResult(NamedTuple):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateFeaturesResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Annotated[Sequence[UpdatableFeatureResult], In(until=1)] = ()


UPDATE_FEATURES_REQUEST, UPDATE_FEATURES_RESPONSE = messages(
    UpdateFeaturesRequest, UpdateFeaturesResponse, api_key=57, versions=(0, 2), first_flexible=0
)
