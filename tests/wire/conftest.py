"""Fixtures with the wire's messages, on both forms of the kernel: interpreted and compiled."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from lacuna.wire import layout
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Message
from tests.forms import FORMS, compiled, interpreted
from tests.messages import MESSAGES, versions_of


@pytest.fixture(scope="session", params=FORMS)
def messages(request: pytest.FixtureRequest) -> dict[str, Message[Any]]:
    """All messages by name. Each test runs once on the interpreted kernel and once on the compiled one."""
    form = interpreted if request.param == "interpreted" else compiled
    return _Messages(form("lacuna.wire.kernel"))


@pytest.fixture(scope="session")
def forms() -> list[dict[str, Message[Any]]]:
    """All messages on each available kernel, for tests in which drawing a value takes longer than using it."""
    found: list[dict[str, Message[Any]]] = [_Messages(interpreted("lacuna.wire.kernel"))]
    with suppress(pytest.skip.Exception):  # no compiler, as the tests of `messages` say
        found.append(_Messages(compiled("lacuna.wire.kernel")))
    return found


class _Messages(dict[str, Message[Any]]):
    """The messages on one kernel. Each is created on first use, because creating all takes more than a second."""

    def __init__(self, kernel: ModuleType) -> None:
        self._kernel = kernel

    def __missing__(self, name: str) -> Message[Any]:
        self[name] = made = _on(self._kernel, MESSAGES[name])
        return made


def _on(kernel: ModuleType, message: Message[Any]) -> Message[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "kernel", kernel)
        made: Message[Any] = Message(
            message.body.make,
            api_key=message.api_key,
            versions=message.versions,
            first_flexible=message.first_flexible,
            is_exact=message.is_exact,
        )
        for version in versions_of(message):  # makes the plans, which are made at first use
            with suppress(MalformedMessage):
                made.read(memoryview(b""), version)
    return made
