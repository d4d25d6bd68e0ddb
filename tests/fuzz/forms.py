"""Browser requests to the console as arbitrary bytes: the target `forms`.

The first byte selects the page, and whether the form's token and the cookies are valid. The second byte is the length
of the query, and the rest is the form.
"""

import asyncio
import itertools
import re
import time
from functools import cache
from typing import Any, Final
from urllib.parse import quote_from_bytes

from starlette.types import ASGIApp, Message

from lacuna.base.client_security import ClientSecurity
from lacuna.console.app import make_app
from lacuna.console.sources import Sources
from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.operating.kafka import Agents
from tests.doubles.clock import ManualClock
from tests.doubles.journal import MemoryJournal

NOW_MS: Final = 1_700_000_000_000
#: Nothing listens here, so a password is never correct, and no record is read.
NOWHERE: Final = "127.0.0.1:1"
PAGES: Final = (
    ("POST", "/login"),
    ("POST", "/logout"),
    ("POST", "/transactions/abort"),
    ("GET", "/transactions/abort"),
    ("GET", "/topics/topic"),
    ("GET", "/topics/partition"),
    ("GET", "/messages"),
    ("GET", "/groups/group"),
)
_TOKEN: Final = re.compile(rb'name="token" value="([^"]*)"')
_COOKIE: Final = re.compile(r"lacuna_console=[^;]*")


def forms(data: bytes) -> None:
    """Every input must get an answer other than an internal error."""
    if len(data) < 2:
        return
    console = _console(data[0] & 1)
    method, path = PAGES[(data[0] >> 2) % len(PAGES)]
    query, form = data[2 : 2 + data[1]], data[2 + data[1] :]
    if data[0] & 2:
        form += b"&token=" + console.token
    status, _, _ = console.ask(method, path, query, form)
    assert status < 500 or status in (502, 503), (method, path, query, form)


class _Console:
    """The console of an in-memory cluster. `has_login` means that its agents require passwords."""

    def __init__(self, has_login: bool) -> None:
        self._loop = asyncio.new_event_loop()
        self._app: ASGIApp = self._loop.run_until_complete(self._started(has_login))
        _, headers, body = self.ask("GET", "/login" if has_login else "/transactions", b"", b"")
        found = _COOKIE.search(headers.get("set-cookie", ""))
        self._cookie = found[0] if found else ""
        token = _TOKEN.search(body)
        self.token = token[1] if token else b""

    async def _started(self, has_login: bool) -> ASGIApp:
        numbers = itertools.count(1)
        runtime = Runtime(
            MemoryJournal("cluster"),
            ManualClock(NOW_MS),
            lambda: next(numbers).to_bytes(16, "big"),
            RuntimeSettings(),
            on_fatal=_raise,
        )
        await runtime.start()
        control = InProcessClient(runtime)
        topic = CreateTopic(name="t", partition_count=2)
        await control.call(Command(create_topics=CreateTopics(topics=[topic])))

        async def status() -> list[Any]:
            return []

        security = ClientSecurity(protocol="SASL_PLAINTEXT" if has_login else "PLAINTEXT")
        sources = Sources(
            control=control,
            agents=lambda: Agents(NOWHERE, security),
            now_ms=lambda: NOW_MS,
            seconds=time.monotonic,
            status=status,
            has_acls=False,  # no agent could be reached
        )
        return make_app(sources, {"localhost"}, may_write=True).answers

    def ask(
        self, method: str, path: str, query: bytes, form: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of the response."""
        return self._loop.run_until_complete(self._ask(method, path, query, form))

    async def _ask(
        self, method: str, path: str, query: bytes, form: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        headers = {
            "host": "localhost",
            "origin": "http://localhost",
            "cookie": getattr(self, "_cookie", ""),
            "content-type": "application/x-www-form-urlencoded",
        }
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": quote_from_bytes(query, safe="/&=%+-").encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        answered: list[Message] = []
        asked = iter([{"type": "http.request", "body": form, "more_body": False}])

        async def receive() -> Message:
            return next(asked, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            answered.append(message)

        await self._app(scope, receive, send)
        start, *rest = answered
        named = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], named, b"".join(each.get("body", b"") for each in rest)


def _raise(error: BaseException) -> None:
    raise error


@cache
def _console(has_login: int) -> _Console:
    return _Console(bool(has_login))
