"""Lacuna as a target: `lacuna up`, or a control plane and an agent in separate processes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.processes import Process
from bench.target import Target
from tests.certificates import Authority

READY = "bootstrap: "
CONTROL_READY = "control plane: "


class Lacuna(Target):
    """`lacuna up` on a temporary folder, with additional `options`.

    Without options, it runs with the defaults that users get: one worker, 128 MiB of cache, no delay before a flush.
    """

    def __init__(self, options: Sequence[str] = (), label: str = "lacuna") -> None:
        self.label = label
        self.settings = " ".join(["lacuna up", *options]) + "; fsync before every acknowledgement"
        self._options = list(options)
        self._listen = "127.0.0.1:0"
        self._processes: list[Process] = []

    @property
    def bootstrap(self) -> str:
        return self._listen

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    @property
    def data(self) -> Path:
        """The data folder while the server runs. Its `objects/` is the store, unless `options` specify another."""
        return Path(self._folder.name)

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lacuna-bench-")
        self._run()

    def stop(self) -> None:
        try:
            self._end()
        finally:
            self._folder.cleanup()

    def forget(self) -> bool:
        self._end()
        self._run()
        return True

    def _run(self) -> None:
        arguments = [
            "up",
            "--no-console",
            f"--data={self.data}",
            f"--listen={self._address()}",
            *self._options,
        ]
        process = Process(arguments, READY)
        self._processes = [process]
        self._listen = process.value

    def _address(self) -> str:
        return self._listen

    def _end(self) -> None:
        processes, self._processes = self._processes, []
        for process in processes:
            process.stop()


class LacunaTls(Lacuna):
    def __init__(self, label: str = "lacuna tls") -> None:
        super().__init__(label=label)
        self.settings = "lacuna up over TLS 1.3; fsync before every acknowledgement"

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lacuna-bench-")
        authority = Authority(self.data)
        self.authority = authority.path
        own = authority.issue("lacuna")
        self._options = [f"--tls-cert={own.certificate}", f"--tls-key={own.key}"]
        self._run()

    def _address(self) -> str:
        return f"SSL://{self._listen}"


class LacunaGrpc(Lacuna):
    """`lacuna controlplane` and several `lacuna agent` processes, connected by gRPC over TCP; `options` are for agents.

    Clients bootstrap from the first agent. The records are in the store at the URL `store`, or in the data folder.
    """

    def __init__(
        self,
        options: Sequence[str] = (),
        label: str = "lacuna grpc",
        agents: int = 1,
        store: str = "",
    ) -> None:
        super().__init__(options, label)
        self._store = store
        several = f"{agents} × " if agents > 1 else ""
        self.settings = " ".join([f"lacuna controlplane + {several}lacuna agent", *options])
        self._listens = ["127.0.0.1:0"] * agents

    @property
    def bootstraps(self) -> Sequence[str]:
        return self._listens

    @property
    def store(self) -> str:
        """The store's URL while the server runs."""
        return self._store or f"file://{self.data / 'objects'}"

    @property
    def journal(self) -> Sequence[str]:
        """The control plane's options for its journal."""
        return [f"--data={self.data}"]

    def options_of(self, _number: int) -> Sequence[str]:
        """Returns this agent's options other than its addresses."""
        return self._options

    def _run(self) -> None:
        control = Process(["controlplane", *self.journal, "--listen=127.0.0.1:0"], CONTROL_READY)
        self._processes = [control]
        for number, listen in enumerate(self._listens):
            arguments = [
                f"--control={control.value}",
                f"--store={self.store}",
                f"--listen={listen}",
            ]
            agent = Process(["agent", *arguments, *self.options_of(number)], READY)
            self._processes.insert(number, agent)
            self._listens[number] = agent.value
        self._listen = self._listens[0] if self._listens else ""
