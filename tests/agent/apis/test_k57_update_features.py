"""UpdateFeatures over the wire: every version, and errors."""

import pytest

from tests.agent.apis.clusters import SECOND, Setup
from tests.messages import nested


@pytest.mark.parametrize("level", range(4))
async def test_features_stay_as_they_are(setup: Setup, level: int) -> None:
    update = nested(
        57, 1, "FeatureUpdateKey", feature="transaction.version", max_version_level=level,
        upgrade_type=3,
    )  # fmt: skip
    answer = await setup.ask(
        57, 1, timeout_ms=SECOND, feature_updates=(update,), validate_only=False
    )
    assert answer.error_code == (0 if level == 2 else 95)
