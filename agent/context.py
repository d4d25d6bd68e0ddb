"""Everything an agent has from outside, in one value that is handed to every handler."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent.apis.registry import Registry
from agent.clock import Clock
from agent.lease import AgentLease
from agent.metrics import AgentMetrics
from agent.settings import AgentSettings

if TYPE_CHECKING:
    from agent.fetch.service import FetchService
    from agent.produce.service import ProduceService
    from controlplane.client import ControlClient
    from logstore.objects.store import ObjectStore


class Randomness(Protocol):
    """What random.Random gives; seeded in tests."""

    def random(self) -> float:
        """From 0 to below 1."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """`k` random bits."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """The surroundings of one agent (one worker process).

    `lease` says who this agent is at the control plane (node id, segment ids).
    """

    control: "ControlClient"
    store: "ObjectStore"
    clock: Clock
    randomness: Randomness
    settings: AgentSettings
    registry: Registry
    lease: AgentLease
    metrics: AgentMetrics
    produce: "ProduceService"
    fetch: "FetchService"
