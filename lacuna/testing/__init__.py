"""A real transactional broker for tests: an embedded cluster, and a pytest plugin that provides it.

    from lacuna.testing import Cluster

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})

`Cluster` runs in a thread of this process. It starts in a fraction of a second, can be killed and restarted, and lets
tests move its clock forward. `ProcessCluster` runs `lacuna up` as a separate process, which a real SIGKILL can end.
docs/testing.md describes the fixtures.

Modules are imported only on first use, because pytest imports this package in every run, even if no test needs a
cluster, and before it starts to measure coverage.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lacuna.testing.clock import AdjustableClock
    from lacuna.testing.cluster import Cluster
    from lacuna.testing.faults import Fault, FaultKind, FaultyStore
    from lacuna.testing.process import ProcessCluster, ProcessFailedError

__all__ = [
    "AdjustableClock",
    "Cluster",
    "Fault",
    "FaultKind",
    "FaultyStore",
    "ProcessCluster",
    "ProcessFailedError",
]

_MODULES = {
    "AdjustableClock": "lacuna.testing.clock",
    "Cluster": "lacuna.testing.cluster",
    "Fault": "lacuna.testing.faults",
    "FaultKind": "lacuna.testing.faults",
    "FaultyStore": "lacuna.testing.faults",
    "ProcessCluster": "lacuna.testing.process",
    "ProcessFailedError": "lacuna.testing.process",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
