"""One moto S3 server for all processes of a test run, started by the first test that uses it.

Starting a server takes a second of CPU time, and each of pytest-xdist's workers used to start one for each folder with
a conftest.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Client, Listener

import pytest

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
_numbers = itertools.count(1)


class Landlord:
    """Sends the URL of the one server to each process that connects to `address`.

    The thread and the server end with the process that created this object, which is the one that started
    pytest-xdist's workers.
    """

    def __init__(self) -> None:
        self._listener = Listener(family="AF_UNIX")
        self.address = str(self._listener.address)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        from lacuna.operating.moto import MotoServer  # every pytest process imports this module

        # Where the server does not start, those that ask get an EOFError.
        with self._listener, self._listener.accept() as first, MotoServer() as server:
            first.send(server.endpoint)
            while True:
                with self._listener.accept() as another:
                    another.send(server.endpoint)


@pytest.fixture(scope="session")
def moto_endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an S3 server. Conftest modules import this fixture."""
    address = getattr(request.config, "workerinput", {}).get("moto")
    if address is None:
        from lacuna.operating.moto import MotoServer

        with MotoServer() as server:
            yield server.endpoint
        return
    with Client(address) as asking:
        endpoint = asking.recv()
    yield endpoint


def moto_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty bucket on that server. From now on, this process and its children have its credentials."""
    from lacuna.logstore.objects import bucket_url
    from lacuna.operating.moto import CREDENTIALS
    from lacuna.operating.stores import open_checked

    os.environ.update(CREDENTIALS)
    url = bucket_url(fresh_bucket(), endpoint=request.getfixturevalue("moto_endpoint"))
    open_checked(url, create_bucket=True).close()
    return url


def fresh_bucket() -> str:
    """Return the name of a bucket that no other test uses."""
    return f"bucket-{_WORKER}-{next(_numbers)}"
