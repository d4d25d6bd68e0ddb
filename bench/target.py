"""A server that is measured."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Target(ABC):
    """A context manager: started inside of it, ended and its data thrown away after it.

    `label` names it in tables, `settings` says in words how it runs.
    """

    label: str
    settings: str = ""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """HOST:PORT for clients; stays the same over `forget`."""

    @property
    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """The processes that are the server; their descendants count, too. May change in `forget`."""

    @abstractmethod
    def start(self) -> None:
        """Returns when clients can connect."""

    @abstractmethod
    def stop(self) -> None:
        """Ends it, and deletes its data."""

    @abstractmethod
    def forget(self) -> bool:
        """Empties what the server itself keeps in memory of records, so that the next read goes to its store.

        Returns whether it had to be restarted for that. The operating system's page cache stays warm, for every
        target alike.
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
    """A server that somebody else has started and will end."""

    def __init__(self, bootstrap: str, pid: int, label: str) -> None:
        self.label = label
        self.settings = "started by somebody else"
        self._bootstrap = bootstrap
        self._pid = pid

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._pid,) if self._pid else ()

    def start(self) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do."""

    def forget(self) -> bool:
        """Cannot be asked for: what it has cached stays."""
        return False


def is_foreign(target: Target) -> bool:
    """Whether somebody else has started it."""
    return isinstance(target, Foreign)
