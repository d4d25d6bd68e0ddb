"""Extends agents' leases so that a busy machine cannot end them.

A machine may delay a process for longer than a lease. Its agents then reject requests and close connections until they
have registered again. A test that sends requests itself would see these errors.
"""

from __future__ import annotations

from collections.abc import Iterable

from lacuna.agent.lease import AgentLease
from lacuna.controlplane.runtime import Runtime

LEASE_MS = 600_000


async def lengthen(plane: Runtime, leases: Iterable[AgentLease]) -> None:
    """Make all leases of a control plane last LEASE_MS, until it is restarted. `leases` are those of its agents."""
    for held in plane._state.leases.values():
        held.duration_ms = LEASE_MS
    for lease in leases:
        lease._duration_seconds = lease.trust.lasts = LEASE_MS / 1000
        await lease.renew()
