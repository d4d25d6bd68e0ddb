"""ApiVersions v0-v5.

Advertises the ranges of Apache Kafka 4.4 for the APIs that are served (S24). A request in an unknown version is
answered in the form of v0, with UNSUPPORTED_VERSION and only the version range of ApiVersions, so that the client can
retry (KIP-511). From v3 on, the client names its software; an invalid name returns INVALID_REQUEST. From v5 on, a
client names the cluster and the node that it expects, if it knows them. If this agent belongs to another cluster or is
another node, REBOOTSTRAP_REQUIRED makes the client start over from its bootstrap servers (KIP-1242).

Features (KIP-584): `transaction.version` 2 is finalized, which turns on KIP-890 in clients that support it (S9).
Clients use the feature only if the epoch of the finalized features is not negative. The feature's supported range
begins at 0, which clients cannot read before v4, so answers before v4 omit the range. The same applies to
`group.version` 1, which announces consumer groups (KIP-848, S26), to `share.version` 2, which announces share groups
(KIP-932) with dead-letter queues (KIP-1191), and to `streams.version` 1, which announces streams groups (KIP-1071).
`metadata.version` is that of Kafka 4.4. Lacuna has no such metadata, but tools derive the cluster's release from this
feature.
"""

import re
from collections.abc import Sequence

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import Buffer
from lacuna.wire.messages import cluster as wire

KEY = 18
_MIN, _MAX = wire.API_VERSIONS_REQUEST.versions
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_MINIMUM_0 = 4
_NO_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")

#: name -> finalized level, which is also the highest supported one; in the order of Kafka's answer
FEATURES = {
    "group.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
#: name -> lowest supported level, if it is not 0; 7 is 3.3-IV3, Kafka's first release without ZooKeeper
_LOWEST = {"metadata.version": 7}
FEATURES_EPOCH = 1


class AnyVersion(Api[wire.ApiVersionsRequest, wire.ApiVersionsResponse]):
    """Reads and answers requests in unserved versions as v0, whose request is empty (KIP-511)."""

    __slots__ = ()

    def read(self, body: memoryview, version: int) -> wire.ApiVersionsRequest:
        return Api.read(self, body, version) if _is_served(version) else wire.ApiVersionsRequest()

    def write(self, response: wire.ApiVersionsResponse, version: int) -> Sequence[Buffer]:
        return Api.write(self, response, version if _is_served(version) else 0)


async def handle(call: Call, request: wire.ApiVersionsRequest) -> wire.ApiVersionsResponse:
    if not _is_served(call.version):
        return refuse(call, request, ErrorCode.UNSUPPORTED_VERSION)
    if call.version >= _FIRST_WITH_SOFTWARE and not (
        _SOFTWARE.match(request.client_software_name)
        and _SOFTWARE.match(request.client_software_version)
    ):
        return refuse(call, request, ErrorCode.INVALID_REQUEST)
    if (request.cluster_id is None) != (request.node_id == _NO_NODE):
        return refuse(call, request, ErrorCode.INVALID_REQUEST)
    if request.cluster_id is not None and _is_misrouted(call, request):
        return refuse(call, request, ErrorCode.REBOOTSTRAP_REQUIRED)
    if call.version >= _FIRST_WITH_SOFTWARE:
        call.peer.software.is_called(request.client_software_name, request.client_software_version)
    ranges = call.context.advertised
    return wire.ApiVersionsResponse(
        api_keys=[wire.ApiVersion(key, low, high) for key, (low, high) in ranges.items()],
        supported_features=_supported(takes_0=call.version >= _FIRST_WITH_MINIMUM_0),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            wire.FinalizedFeatureKey(name, level, level) for name, level in FEATURES.items()
        ],
    )


def _is_misrouted(call: Call, request: wire.ApiVersionsRequest) -> bool:
    """Whether the client expected another cluster or node at this address."""
    here = call.context.control.cluster.cluster_id, call.context.lease.node_id
    return (request.cluster_id, request.node_id) != here


def refuse(
    call: Call, _request: wire.ApiVersionsRequest, error_code: int
) -> wire.ApiVersionsResponse:
    """Answer with the error, and with ApiVersions' own range if the request's version is not served."""
    if _is_served(call.version):
        return wire.ApiVersionsResponse(error_code)
    return wire.ApiVersionsResponse(
        ErrorCode.UNSUPPORTED_VERSION, [wire.ApiVersion(KEY, _MIN, _MAX)]
    )


def _is_served(version: int) -> bool:
    return _MIN <= version <= _MAX


def _supported(*, takes_0: bool) -> list[wire.SupportedFeatureKey]:
    return [
        wire.SupportedFeatureKey(name, _LOWEST.get(name, 0), level)
        for name, level in FEATURES.items()
        if takes_0 or name in _LOWEST
    ]


API = AnyVersion(
    request=wire.API_VERSIONS_REQUEST,
    response=wire.API_VERSIONS_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=None,  # clients send this first
    notes=(
        "answers unknown versions with a v0 response and UNSUPPORTED_VERSION (KIP-511). "
        "`transaction.version` 2 is finalized at epoch 1. Versions below v4 omit the supported range of that feature, "
        "0-2, because their clients cannot read a minimum of 0. `metadata.version` is that of Kafka 4.4"
    ),
)
