"""The measured servers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class Target(ABC):
    """A server, as a context manager. It is started on entry; on exit, it is ended and its data is deleted.

    `label` names it in tables; `settings` describes how it runs. `warms_slowly`: it may become faster for a long time,
    as a JVM does.
    """

    label: str
    settings: str = ""
    warms_slowly: bool = False

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The HOST:PORT for clients; it stays the same across `forget`."""

    @property
    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """The ids of the server's processes, whose descendants are counted with them. They may change in `forget`."""

    @property
    def client(self) -> Mapping[str, str]:
        """The settings with which librdkafka connects."""
        return {"bootstrap.servers": self.bootstrap}

    def counts(self) -> Mapping[str, float]:
        """The server's own counts of its work since it started, by name; `Meter` takes the difference."""
        return {}

    @abstractmethod
    def start(self) -> None:
        """Starts the server and returns when clients can connect."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the server and deletes its data."""

    @abstractmethod
    def forget(self) -> bool:
        """Empties the server's own cache of records, so that the next read goes to its store.

        Returns whether the server had to be restarted for that. The operating system's page cache stays warm, for all
        targets.
        """

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class Foreign(Target):
    """A server that was not started by the benchmark, and is not ended by it."""

    warms_slowly = True

    def __init__(self, bootstrap: str, pid: int, label: str) -> None:
        self.label = label
        self.settings = "started by another process"
        self._bootstrap = bootstrap
        self._pid = pid

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._pid,) if self._pid else ()

    def start(self) -> None:
        """Does nothing, because the server is running."""

    def stop(self) -> None:
        """Does nothing, so the server keeps running."""

    def forget(self) -> bool:
        """Does nothing, because the server's cache cannot be emptied from here."""
        return False


def is_foreign(target: Target) -> bool:
    """Whether the server was not started by the benchmark."""
    return isinstance(target, Foreign)
