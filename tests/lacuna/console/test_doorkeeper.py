"""Tests that connections without requests neither block other clients nor stay open."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lacuna.base.addresses import parse_address
from lacuna.console import limits
from lacuna.console.doorkeeper import Quiet
from lacuna.testing import Cluster
from tests.lacuna.console.conftest import SECONDS, Browser, served

HALF = b"GET / HTTP/1.1\r\nHost: 127"


@contextmanager
def connections(browser: Browser, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    address = parse_address(browser.address)
    found = []
    for _ in range(count):
        found.append(socket.create_connection(address, SECONDS))
        found[-1].sendall(said)  # before the next one takes the place of the first
    yield found
    for each in found:
        each.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("bound", ["CONNECTIONS_OF_ADDRESS", "CONNECTIONS"])
def test_half_sent_heads_keep_nobody_out(
    filled: Cluster, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(limits, bound, 4)
    with served(filled) as browser, connections(browser, 6, HALF) as half:
        assert all(map(is_closed, half[:2]))
        assert browser.get("/").code == 200
        assert is_closed(half[2])


def test_idle_connections_keep_nobody_out(filled: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_OF_ADDRESS", 3)
    with served(filled) as browser:
        asked = f"GET /healthz HTTP/1.1\r\nHost: {browser.address}\r\n\r\n".encode()
        with connections(browser, 3, asked) as idle:
            assert all(each.recv(12).startswith(b"HTTP/1.1") for each in idle)
            assert browser.get("/").code == 200


def test_a_head_has_to_come_in_time(filled: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(filled) as browser:
        with monkeypatch.context() as short:
            short.setattr(limits, "HEAD_SECONDS", 0.1)
            for said in (HALF, b""):
                with connections(browser, 1, said) as (connection,):
                    assert is_closed(connection)
        assert browser.get("/").code == 200


def test_what_clients_can_repeat_is_logged_once_a_minute() -> None:
    quiet = Quiet()
    record = logging.makeLogRecord({"msg": "Invalid request", "created": 100.0})
    assert [quiet.filter(record) for _ in range(3)] == [True, False, False]
    record.created = 170.0
    assert quiet.filter(record)
