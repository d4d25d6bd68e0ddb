"""Checks the health of a cluster through its agents.

`look` queries all parts of the cluster concurrently and waits at most two seconds for each, so a part that does not
answer is reported as a problem and does not delay the others. `problems_of` evaluates the answers, without further
requests.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from lacuna.agent.admin.config_resources import BROKER
from lacuna.agent.admin.configs import KERNEL
from lacuna.base.addresses import join_address
from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ClusterDescribed, DescribeCluster
from lacuna.controlplane.v1.control_pb2 import (
    AgentHealth,
    AgentQuestion,
    Command,
    ControlPlaneStatus,
)
from lacuna.controlplane.v1.log_pb2 import DescribeMerges, MergesDescribed
from lacuna.operating import questions
from lacuna.operating.exchanges.cluster import DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS
from lacuna.operating.exchanges.topics import DESCRIBE_CONFIGS
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.operating.relayed import ask_agent, relayed
from lacuna.wire.messages import cluster as wire
from lacuna.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource

#: How long a part may take to answer.
PART_SECONDS: Final = 2.0
#: How long an agent may take to query other parts. It sends two queries: for the addresses, then for the rest.
_HEALTH_SECONDS: Final = 2 * PART_SECONDS + 0.5
_AGENTS_AT_ONCE: Final = 32
_SLOW_SECONDS: Final = 1.0
_LONG_MS: Final = 60_000
_FAR_BEHIND: Final = 10_000
_LONG_BACKLOG: Final = 10_000
_CLOCK_MS: Final = 10_000
# A share of the disk, and a number of bytes. A disk is short of space only if less than both is free: a tenth of a
# large disk is enough for a journal.
_LITTLE_DISK: Final = (0.1, 8 << 30)
_TOO_LITTLE_DISK: Final = (0.02, 1 << 30)
_RECENT_MS: Final = 600_000


class Severity(IntEnum):
    """The severity of a problem: clients are affected, clients will be affected, or settings protect less than they
    could.
    """

    FAILING = 0
    DEGRADED = 1
    ADVICE = 2


class Problem(NamedTuple):
    """A problem with a part of the cluster, and its remedy."""

    severity: Severity
    part: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAgent:
    """An agent that clients are sent to. `problem` says why it did not answer."""

    node_id: int
    address: str
    zone: str = ""
    kernel: str = ""
    cannot_store: bool = False
    problem: str = ""


@dataclass(slots=True, kw_only=True)
class Seen:
    """The answers from a cluster's parts. A part that did not answer is None, with the reason in `problems`."""

    cluster_id: str = ""
    agents: Sequence[SeenAgent] = ()
    health: AgentHealth | None = None
    described: ClusterDescribed | None = None
    merges: MergesDescribed | None = None
    groups: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    #: The transactional ids of transactions that have been open for a minute.
    lasting: Sequence[str] = ()
    topics: int | None = None
    partitions: int | None = None
    problems: list[Problem] = field(default_factory=list)


async def look(agents: Agents) -> Seen:
    """Query all parts of a cluster. Raises NotAuthenticated, and UserError only for malformed addresses."""
    seen = Seen()
    try:
        async with KafkaConnection(agents, PART_SECONDS) as connection:
            answer = await connection.ask(*DESCRIBE_CLUSTER, wire.DescribeClusterRequest())
            brokers = sorted(answer.brokers, key=lambda each: each.broker_id)
            seen.cluster_id = answer.cluster_id
            turn = asyncio.Semaphore(_AGENTS_AT_ONCE)
            seen.agents, _, _ = await asyncio.gather(
                asyncio.gather(*[_look_at(agents, each, turn) for each in brokers]),
                _look_at_health(seen, agents),
                _look_at_control(seen, agents),
            )
    except UserError as error:
        remedy = "start an agent, or check the address and the network"
        seen.problems.append(Problem(Severity.FAILING, "agents", str(error), remedy))
    return seen


async def _look_at(
    agents: Agents, broker: wire.DescribeClusterBroker, turn: asyncio.Semaphore
) -> SeenAgent:
    address = join_address(broker.host, broker.port)
    zone = broker.rack or ""
    resource = DescribeConfigsResource(BROKER, str(broker.broker_id), [KERNEL])
    try:
        async with (
            turn,
            asyncio.timeout(PART_SECONDS),
            KafkaConnection(Agents(address, agents.security), PART_SECONDS) as connection,
        ):
            configs = await connection.ask(*DESCRIBE_CONFIGS, DescribeConfigsRequest([resource]))
            directories = await connection.ask(*DESCRIBE_LOG_DIRS, wire.DescribeLogDirsRequest(()))
    except (UserError, TimeoutError) as error:
        problem = str(error) or f"it did not answer within {PART_SECONDS:g} s"
        return SeenAgent(node_id=broker.broker_id, address=address, zone=zone, problem=problem)
    return SeenAgent(
        node_id=broker.broker_id,
        address=address,
        zone=zone,
        kernel=next((each.value or "" for each in configs.results[0].configs), ""),
        cannot_store=any(
            each.error_code == ErrorCode.KAFKA_STORAGE_ERROR for each in directories.results
        ),
    )


async def _look_at_health(seen: Seen, agents: Agents) -> None:
    """Ask an agent for the health of the store and the control planes."""
    try:
        async with KafkaConnection(agents, _HEALTH_SECONDS) as connection:
            seen.health = (await ask_agent(connection, AgentQuestion(wants_health=True))).health
    except (UserError, ControlPlaneUnavailable) as error:
        seen.problems.append(_unseen("store", error))


async def _look_at_control(seen: Seen, agents: Agents) -> None:
    try:
        async with asyncio.timeout(PART_SECONDS), relayed(agents) as control:
            topics = control.cluster.topics_by_id.values()
            seen.topics = len(topics)
            seen.partitions = sum(each.partition_count for each in topics)
            seen.groups = Counter(each.state for each in await questions.groups(control))
            transactions = await questions.transactions(control)
            seen.transactions = Counter(each.state for each in transactions)
            lasting = await questions.transactions(
                control, states=["Ongoing"], longer_than_ms=_LONG_MS
            )
            seen.lasting = [each.transactional_id for each in lasting]
            reply = await control.call(Command(describe_cluster=DescribeCluster()))
            seen.described = reply.cluster_described
            reply = await control.call(Command(describe_merges=DescribeMerges()))
            seen.merges = reply.merges_described
    except TimeoutError:
        what = f"it did not answer the agent within {PART_SECONDS:g} s"
        seen.problems.append(
            Problem(
                Severity.FAILING, "control plane", what, "check that it is running, and see its log"
            )
        )
    except (UserError, ControlPlaneUnavailable) as error:
        seen.problems.append(_unseen("control plane", error))


def _unseen(part: str, error: Exception) -> Problem:
    is_denied = "ACLs" in str(error)
    severity = Severity.ADVICE if is_denied else Severity.FAILING
    return Problem(
        severity, part, f"cannot be checked: {error}", "check that it is running, and see its log"
    )


def problems_of(seen: Seen, now_ms: int) -> list[Problem]:
    """Return the problems, worst first."""
    found = [
        *seen.problems,
        *_of_agents(seen),
        *_of_store(seen),
        *_of_control(seen),
        *_of_reports(seen, now_ms),
        *_of_transactions(seen),
    ]
    if seen.health is not None:
        found += [
            Problem(Severity.ADVICE, "settings", *_halves(each)) for each in seen.health.weaknesses
        ]
    return sorted(found, key=lambda each: each.severity)


def _halves(text: str) -> tuple[str, str]:
    what, _, remedy = text.partition(": ")
    return what, remedy


def _of_agents(seen: Seen) -> Iterator[Problem]:
    for each in seen.agents:
        name = f"agent {each.node_id}"
        if each.problem:
            remedy = f"check that it is running at {each.address} and that this machine can connect to it"
            yield Problem(Severity.FAILING, name, each.problem, remedy)
        if each.cannot_store:
            what = "it cannot write to the object store, so producers wait"
            yield Problem(Severity.FAILING, name, what, "see its log or /readyz for the reason")
        if each.kernel == "interpreted":
            what = "its kernel is not compiled, so it is much slower"
            remedy = "install a C compiler and reinstall Lacuna, or install a wheel"
            yield Problem(Severity.DEGRADED, name, what, remedy)
    if seen.described is not None:
        for agent in seen.described.agents:
            if agent.is_hidden:
                what = "it has no session with the control plane, so clients are sent elsewhere"
                remedy = "check its log and the network between the two"
                name = f"agent {agent.agent.node_id}"
                yield Problem(Severity.DEGRADED, name, what, remedy)


def _of_store(seen: Seen) -> Iterator[Problem]:
    if seen.health is None:
        return
    store = seen.health.store
    if store.problem:
        remedy = "check the service, its address and the credentials of the agents"
        yield Problem(Severity.FAILING, "store", store.problem, remedy)
    elif max(store.put_seconds, store.get_seconds) > _SLOW_SECONDS:
        what = f"a PUT took {store.put_seconds:.1f} s, and a GET {store.get_seconds:.1f} s"
        remedy = "check the service and the network to it"
        yield Problem(Severity.DEGRADED, "store", what, remedy)


def _of_control(seen: Seen) -> Iterator[Problem]:
    planes = () if seen.health is None else seen.health.control_planes
    leaders = [each for each in planes if each.status.is_leader]
    for each in planes:
        if each.problem:
            severity = Severity.DEGRADED if leaders else Severity.FAILING
            remedy = "start it; until then, fewer standbys can take over"
            yield Problem(severity, f"control plane {each.address}", each.problem, remedy)
    if planes and not leaders:
        what = "no control plane is the leader, so transactions and flushes wait"
        yield Problem(
            Severity.FAILING,
            "control plane",
            what,
            "start one, or check the logs of those that are running",
        )
    for each in leaders:
        status = each.status
        for standby in status.standbys:
            if status.position - standby.position > _FAR_BEHIND:
                what = f"it is {status.position - standby.position} records behind the leader"
                remedy = "check its load and its log"
                name = f"control plane {standby.address}"
                yield Problem(Severity.DEGRADED, name, what, remedy)
        if status.backlog > _LONG_BACKLOG:
            what = f"{status.backlog} commands are waiting for it"
            remedy = "see docs/scale.md: use fewer partitions per flush, or a faster machine"
            yield Problem(Severity.DEGRADED, "control plane", what, remedy)
        if status.is_time_doubtful:
            what = f"the clocks are {status.clocks_ahead_ms / 1000:.0f} s ahead, so nothing is deleted based on age"
            remedy = "correct the clocks; if the cluster's time is wrong, use `lacuna controlplane set-time`"
            yield Problem(Severity.DEGRADED, "clocks", what, remedy)
        if _is_below(_LITTLE_DISK, status):
            is_near = _is_below(_TOO_LITTLE_DISK, status)
            what = f"{status.disk_free_bytes >> 20} MiB are free on the disk of the journal"
            remedy = "free some space, or move the journal with `lacuna controlplane copy`"
            severity = Severity.FAILING if is_near else Severity.DEGRADED
            yield Problem(severity, "disk", what, remedy)


def _is_below(bound: tuple[float, int], status: ControlPlaneStatus) -> bool:
    share, bytes_ = bound
    return status.disk_free_bytes < min(share * status.disk_bytes, bytes_)


def _of_reports(seen: Seen, now_ms: int) -> Iterator[Problem]:
    """Yield the problems that agents have reported to the control plane."""
    if seen.described is None:
        return
    reports = [each for each in seen.described.agents if each.HasField("report")]
    for each in reports:
        name, merges = f"agent {each.agent.node_id}", each.report.merges
        if merges.last_failure and now_ms - merges.last_failure_ms < _RECENT_MS:
            remedy = "see its log; reading gets slower while small objects are not merged"
            yield Problem(Severity.DEGRADED, "merging", f"{name}: {merges.last_failure}", remedy)
        apart_ms = each.report.clock_ms - each.report.store_clock_ms
        if each.report.store_clock_ms and abs(apart_ms) > _CLOCK_MS:
            what = f"the clock of {name} differs from the store's by {apart_ms / 1000:+.0f} s"
            yield Problem(Severity.DEGRADED, "clocks", what, "synchronize it with NTP")


def _of_transactions(seen: Seen) -> Iterator[Problem]:
    if seen.described is None or not seen.lasting:
        return
    blocked, age = seen.described.partitions_blocked, seen.described.oldest_transaction_ms / 1000
    named = ", ".join(seen.lasting[:3]) + (", …" if len(seen.lasting) > 3 else "")
    what = f"readers of {blocked} partitions are waiting for {named} (open for up to {age:.0f} s)"
    remedy = "`lacuna transactions blame TOPIC` shows the details; `lacuna transactions abort ID` aborts one"
    yield Problem(Severity.DEGRADED, "transactions", what, remedy)
