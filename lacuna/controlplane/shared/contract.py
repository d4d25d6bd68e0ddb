"""The supported versions of the contract between control planes and their clients (control.proto).

A release that changes the contract increases `NEWEST`. Since the processes of a cluster are upgraded one after another,
`OLDEST` increases only once no cluster needs to upgrade from that version without downtime.
"""

from typing import Final

from lacuna.controlplane.v1.control_pb2 import Contract

NEWEST: Final = 1
OLDEST: Final = 1

#: The methods of the service, in gRPC's form.
SESSION_METHOD: Final = "/controlplane.v1.ControlPlane/Session"
STATUS_METHOD: Final = "/controlplane.v1.ControlPlane/Status"


def own_contract() -> Contract:
    return Contract(newest=NEWEST, oldest=OLDEST)


def why_not(peer: Contract) -> str:
    """Return why this process cannot work with one that supports the contract `peer`, or "" if it can."""
    if peer.oldest <= NEWEST and peer.newest >= OLDEST:
        return ""
    which = "this process" if peer.oldest > NEWEST else "the other one"
    return (
        f"it supports versions {peer.oldest} to {peer.newest} of the contract between control "
        f"planes and agents, while this process supports {OLDEST} to {NEWEST}: upgrade {which}"
    )
