"""Tests that an agent started before any control plane waits for one."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from lacuna.controlplane.client import ControlPlace
from lacuna.controlplane.client.session import SessionLimits
from lacuna.controlplane.service import ServiceSettings, serve
from lacuna.operating.control import client_of, until_answered
from lacuna.testing.ports import lasting_ports


async def test_a_control_plane_that_comes_late_is_awaited(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{lasting_ports(1)[0]}"
    told = asyncio.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    handler = Told()
    logging.getLogger("lacuna").addHandler(handler)
    try:
        async with client_of(ControlPlace(address), SessionLimits(give_up_after=0.05)) as client:
            waiting = asyncio.create_task(until_answered(client.cluster.ready))
            await told.wait()
            assert not waiting.done()
            served = await serve(
                address, str(tmp_path / "journal"), ServiceSettings(stop_grace=0.0)
            )
            try:
                await waiting
                assert client.cluster.cluster_id
            finally:
                await served.close()
    finally:
        logging.getLogger("lacuna").removeHandler(handler)
    (said,) = caplog.messages
    assert said.startswith(f"no control plane at {address} ")
    assert said.endswith("trying again until a control plane answers")
