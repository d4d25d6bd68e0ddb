"""ApiVersions v0-v4.
 The ranges that Apache Kafka 4.1 advertises, of the APIs that are served (S24). A version that we
do not know is answered as v0 with UNSUPPORTED_VERSION and the range of ApiVersions alone, so that
the client can ask again (KIP-511). From v3 on the client names its software; a bad name is
INVALID_REQUEST.
 Features (KIP-584): `transaction.version` 2 is finalized, which turns on KIP-890 in clients that
know it (S9). Clients heed it only if the epoch is not negative. Its supported range begins at 0,
and clients below v4 cannot read a range that does, so there it is left out. So it is with
`group.version` 1, which says that consumer groups (KIP-848) are served (S26). `metadata.version` is that
of Kafka 4.1: there is no such metadata here, but it is what tools read the cluster's release from.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import KAFKA_4_1, Api, Peer, read_kio
from agent.apis.schema import build, build_for, version_of

if TYPE_CHECKING:
    from agent.context import AgentContext

KEY = 18
_MIN, _MAX = KAFKA_4_1[KEY]
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_MINIMUM_0 = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")

#: Name to the level that is finalized, the highest one. In the order of Kafka's answer.
FEATURES = {"group.version": 1, "transaction.version": 2, "metadata.version": 27}
#: The lowest level that is supported, where it is not 0: 3.3-IV3, Kafka's first without ZooKeeper.
_LOWEST = {"metadata.version": 7}
FEATURES_EPOCH = 1


@dataclass(frozen=True, slots=True)
class UnknownVersion:
    """A request of a version that is not ours; its body is not looked at."""

    version: int


def decode(body: memoryview, version: int) -> Any:
    """kio's request, or UnknownVersion. Raises MalformedRequest."""
    if not _MIN <= version <= _MAX:
        return UnknownVersion(version)
    return read_kio(KEY, version, body)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """All at once: nothing is asked of the control plane."""
    if isinstance(request, UnknownVersion):
        return _unsupported()
    if version_of(request) >= _FIRST_WITH_SOFTWARE and not (
        _SOFTWARE.match(request.client_software_name)
        and _SOFTWARE.match(request.client_software_version)
    ):
        return refuse(request, KafkaError.invalid_request)
    ranges = context.registry.advertised()
    return build(
        request,
        "ApiVersionsResponse",
        error_code=KafkaError.none,
        api_keys=tuple(
            build(request, "ApiVersion", api_key=key, min_version=low, max_version=high)
            for key, (low, high) in ranges.items()
        ),
        supported_features=_supported(request),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=_finalized(request),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error and no ranges."""
    if isinstance(request, UnknownVersion):
        return _unsupported()
    return build(request, "ApiVersionsResponse", error_code=error_code, api_keys=())


def _supported(request: Any) -> tuple[Any, ...]:
    if version_of(request) < _FIRST_WITH_SOFTWARE:
        return ()
    takes_0 = version_of(request) >= _FIRST_WITH_MINIMUM_0
    return tuple(
        build(
            request,
            "SupportedFeatureKey",
            name=name,
            min_version=_LOWEST.get(name, 0),
            max_version=level,
        )
        for name, level in FEATURES.items()
        if takes_0 or name in _LOWEST
    )


def _finalized(request: Any) -> tuple[Any, ...]:
    if version_of(request) < _FIRST_WITH_SOFTWARE:
        return ()
    return tuple(
        build(
            request,
            "FinalizedFeatureKey",
            name=name,
            min_version_level=level,
            max_version_level=level,
        )
        for name, level in FEATURES.items()
    )


def _unsupported() -> Any:
    own = build_for(
        KEY, 0, "ApiVersion", {"api_key": KEY, "min_version": _MIN, "max_version": _MAX}
    )
    return build_for(
        KEY,
        0,
        "ApiVersionsResponse",
        {"error_code": KafkaError.unsupported_version, "api_keys": (own,)},
    )


API = Api(
    key=KEY,
    min_version=_MIN,
    max_version=_MAX,
    handle=handle,
    refuse=refuse,
    decode=decode,
    notes=(
        "other versions: answered as v0 with UNSUPPORTED_VERSION (KIP-511). "
        "`transaction.version` 2 is finalized at epoch 1; its supported range, 0-2, is "
        "left out below v4, whose clients cannot read a minimum of 0; `metadata.version` is 4.1's"
    ),
)
