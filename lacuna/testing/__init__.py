"""A real transactional broker for tests: an embedded cluster, and a pytest plugin around it.

    from lacuna.testing import Cluster

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})

`Cluster` runs in a thread of this process: it starts in a fraction of a second, can be killed and restarted, and its
clock can be moved forward. `ProcessCluster` is `lacuna up` as a process of its own, which dies of a real SIGKILL. The
fixtures are described in docs/testing.md.
"""

from lacuna.testing.clock import AdjustableClock
from lacuna.testing.cluster import Cluster
from lacuna.testing.process import ProcessCluster

__all__ = ["AdjustableClock", "Cluster", "ProcessCluster"]
