"""The environment of an agent, as a single value that is passed to every handler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lacuna.agent.asking import Asking
from lacuna.agent.clock import WallClock
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.hot import Holding, nothing_held
from lacuna.agent.lease import AgentLease
from lacuna.agent.members import Members
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.peer_lines import PeerLines
from lacuna.agent.produce.service import ProduceService
from lacuna.agent.quotas.quotas import Quotas
from lacuna.agent.security.access import Access
from lacuna.agent.settings import AgentSettings
from lacuna.agent.share_sessions import ShareSessions
from lacuna.controlplane.client import ControlClient
from lacuna.logstore.objects.store import ObjectStore


class Randomness(Protocol):
    """The part of random.Random that an agent uses; seeded in tests."""

    def random(self) -> float:
        """Return a random number x with 0 <= x < 1."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits as an integer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """The parts of one agent, which is one worker process.

    `advertised` maps the key of each API to its first and last version, as in the answer to ApiVersions. `lease`
    provides the agent's node id and the ids of its segments. `holding` fetches hot segments. `asking` answers questions
    from tools.
    """

    control: ControlClient
    store: ObjectStore
    clock: WallClock
    randomness: Randomness
    settings: AgentSettings
    advertised: Mapping[int, tuple[int, int]]
    lease: AgentLease
    metrics: AgentMetrics
    produce: ProduceService
    fetch: FetchService
    members: Members
    lines: PeerLines
    access: Access
    quotas: Quotas
    holding: Holding = nothing_held
    asking: Asking = field(default_factory=Asking)
    shares: ShareSessions = field(default_factory=ShareSessions)
