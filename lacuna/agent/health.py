"""Whether an agent serves Kafka clients, and how healthy the cluster's parts appear to the agent."""

import asyncio
from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from google.protobuf.message import DecodeError

from lacuna.agent.asking import PART_SECONDS, Whereabouts
from lacuna.agent.context import AgentContext
from lacuna.agent.lease import NO_LEASE
from lacuna.base.addresses import is_loopback
from lacuna.controlplane.client import (
    CallError,
    ControlPlace,
    addresses_in,
    ask_once,
    made_of,
    resolved,
)
from lacuna.controlplane.shared.contract import STATUS_METHOD
from lacuna.controlplane.v1.control_pb2 import (
    AgentHealth,
    AskedControlPlane,
    ControlPlaneStatus,
    StatusRequest,
)
from lacuna.logstore.segments.paths import probe_key

_MOST_CONTROL_PLANES: Final = 16


def why_not_ready(context: AgentContext) -> str:
    """Return why Kafka clients are not being served, or "" if they are."""
    cluster = context.control.cluster
    if context.lease.lease_id == NO_LEASE:
        return "the agent has no lease from the control plane"
    if not cluster.is_current:
        return "the agent has no session with the control plane"
    if context.lease.lease_id in cluster.hidden_lease_ids:
        return (
            "clients are being sent to other agents, because the agent is stopping or was cut "
            "off from the control plane"
        )
    if why := context.produce.flusher.why_store_fails():
        return f"records cannot be stored: {why}"
    return ""


async def health_of(context: AgentContext) -> AgentHealth:
    """Return the health of the store and of all control planes, each of which has up to two seconds to respond."""
    asking = context.asking
    key = probe_key(context.control.cluster.cluster_id, context.lease.lease_id)
    probing = asyncio.ensure_future(asking.probe(context.store, key))
    place = asking.whereabouts.control
    addresses = [] if place is None else await _addresses(place)
    planes = await asyncio.gather(*[_ask(place, each) for each in addresses if place is not None])
    return AgentHealth(
        store=await probing,
        control_planes=planes,
        weaknesses=weaknesses(context, asking.whereabouts),
        version=version("lacuna-log"),
    )


async def _addresses(place: ControlPlace) -> list[str]:
    found: dict[str, None] = {}
    for address in addresses_in(place.address):
        try:
            async with asyncio.timeout(PART_SECONDS):
                found |= dict.fromkeys(await resolved(address))
        except (OSError, TimeoutError):
            found[address] = None
    return list(found)[:_MOST_CONTROL_PLANES]


async def _ask(place: ControlPlace, address: str) -> AskedControlPlane:
    request = StatusRequest().SerializeToString()
    try:
        answer = await ask_once(address, STATUS_METHOD, request, PART_SECONDS, made_of(place.tls))
        return AskedControlPlane(address=address, status=ControlPlaneStatus.FromString(answer))
    except (CallError, DecodeError) as error:
        return AskedControlPlane(address=address, problem=str(error))


def weaknesses(context: AgentContext, whereabouts: Whereabouts) -> Iterator[str]:
    """For each agent setting that protects less than it could, yield a sentence with the remedy."""
    reachable = [each for each in context.settings.listeners if not each.is_loopback]
    for each in reachable:
        if not each.protocol.has_tls:
            yield (
                f"the listener {each.name} at {each.host} accepts unencrypted connections from other "
                "machines: use SSL or SASL_SSL"
            )
    if reachable and context.access.authorizer is None:
        yield "every client that can connect may do anything: start the agents with --authorizer"
    place = whereabouts.control
    if place is not None and not place.tls.is_given and not _is_local(place.address):
        yield "connections to the control plane are not encrypted: use --control-tls-cert"
    hot = context.produce.flusher.hot
    if not hot.is_journal_as_durable and hot.most_bytes:
        yield (
            "the newest records are only as durable as the journal's disk: set produce.hot.bytes=0, or use a "
            "shared journal"
        )


def _is_local(address: str) -> bool:
    if address.startswith("unix:"):
        return True
    return all(is_loopback(each.rpartition(":")[0]) for each in addresses_in(address))
