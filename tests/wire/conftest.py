"""Fixtures with the wire's messages, on both forms of the kernel: interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from lacuna.wire import layout
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Message
from tests.forms import FORMS, compiled, interpreted
from tests.wire.samples import MESSAGES, versions_of


@pytest.fixture(scope="session", params=FORMS)
def messages(request: pytest.FixtureRequest) -> dict[str, Message[Any]]:
    """All messages by name, on the interpreted kernel in one run of the test and on the compiled one in another."""
    return _all_on(interpreted if request.param == "interpreted" else compiled)


@pytest.fixture(scope="session")
def forms() -> list[dict[str, Message[Any]]]:
    """All messages on each available kernel, for tests in which drawing a value takes longer than using it."""
    found = [_all_on(interpreted)]
    with suppress(pytest.skip.Exception):  # no compiler, as the tests of `messages` say
        found.append(_all_on(compiled))
    return found


def _all_on(form: Callable[[str], ModuleType]) -> dict[str, Message[Any]]:
    return {name: _on(form("lacuna.wire.kernel"), message) for name, message in MESSAGES.items()}


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
