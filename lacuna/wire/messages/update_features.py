"""UpdateFeatures. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class FeatureUpdateKey(NamedTuple):
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1


class UpdateFeaturesRequest(NamedTuple):
    timeout_ms: int = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: bool = False


class UpdatableFeatureResult(NamedTuple):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""


class UpdateFeaturesResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: Sequence[UpdatableFeatureResult] = ()


_FEATURE_UPDATE_KEY: Final = Struct(
    FeatureUpdateKey,
    feature=Field(STRING),
    max_version_level=Field(INT16),
    allow_downgrade=Field(BOOL, until=0),
    upgrade_type=Field(INT8, since=1),
)
_UPDATE_FEATURES_REQUEST: Final = Struct(
    UpdateFeaturesRequest,
    timeout_ms=Field(INT32),
    feature_updates=Field(_FEATURE_UPDATE_KEY, is_array=True),
    validate_only=Field(BOOL, since=1),
)
UPDATE_FEATURES_REQUEST: Final[Message[UpdateFeaturesRequest]] = Message(
    _UPDATE_FEATURES_REQUEST, api_key=57, versions=(0, 2), first_flexible=0
)
_UPDATABLE_FEATURE_RESULT: Final = Struct(
    UpdatableFeatureResult,
    feature=Field(STRING),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
_UPDATE_FEATURES_RESPONSE: Final = Struct(
    UpdateFeaturesResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    results=Field(_UPDATABLE_FEATURE_RESULT, is_array=True, until=1),
)
UPDATE_FEATURES_RESPONSE: Final[Message[UpdateFeaturesResponse]] = Message(
    _UPDATE_FEATURES_RESPONSE, api_key=57, versions=(0, 2), first_flexible=0
)
