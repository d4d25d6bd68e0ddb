"""Runs `lacuna verify` over the simulated bucket and control plane after a history has ended."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar
from unittest import mock

from lacuna.controlplane.client import ControlPlace, ControlPlaneUnavailable
from lacuna.controlplane.client.session import SessionClient
from lacuna.pipeline.audit import job
from lacuna.pipeline.audit.findings import NOTES, Finding
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.location import ClusterLocation
from tests.simulation.cluster import Surroundings
from tests.simulation.sessions import new_client
from tests.simulation.store import SimulatedStore

Result = TypeVar("Result")

#: How long the control plane may take to answer an audit.
ANSWERED_WITHIN: Final = 30.0


class SimulatedJobClient(JobClient):
    """The client that jobs use. A call that waits advances simulated time, so it must come from outside the loop."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.process = around.loop.process("audit")
        self._is_open = True
        self._client = self._run(self._open(ControlPlace("")))

    async def _open(self, _: ControlPlace) -> SessionClient:
        client = new_client(self._around, lambda: 0.5)
        await client.cluster.ready()
        return client

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        loop = self._around.loop
        task = self.process.start(work)
        limit = loop.time() + ANSWERED_WITHIN
        while not task.done():
            if loop.time() >= limit:
                raise ControlPlaneUnavailable("the audit is not answered")
            loop.run(loop.time() + 0.002)
        found: Result = task.result()
        return found


def audit(around: Surroundings) -> list[Finding]:
    """Return the findings of `lacuna verify` in the bucket. Raises PipelineError, ControlPlaneUnavailable."""
    control = SimulatedJobClient(around)
    store = SimulatedStore(around.bucket, control.process)
    location = ClusterLocation(store="memory:", control=ControlPlace(",".join(around.controls)))
    with (
        mock.patch.object(job, "open_metadata", return_value=control),
        mock.patch.object(job, "shared_store", return_value=store),
    ):
        report = job.audit(location, job.AuditOptions(), None)
    control.process.kill()
    return [each for each in report.findings if each.kind not in NOTES]
