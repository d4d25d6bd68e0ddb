"""A target that only answers requests. Its rates are the limit of the client and of Python."""

from bench.processes import Process
from bench.target import Target

READY = "bootstrap: "


class Bare(Target):
    """`bench.bare_server`, which keeps batches in memory and checks nothing."""

    label = "bare"
    settings = "a server in Python that answers at once: no disk, no checks, no transactions"

    @property
    def bootstrap(self) -> str:
        return self._process.value

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    def start(self) -> None:
        self._process = Process([], READY, module="bench.bare_server")

    def stop(self) -> None:
        self._process.stop()

    def forget(self) -> bool:
        """Does nothing, because it has no other copy of its data."""
        return False
