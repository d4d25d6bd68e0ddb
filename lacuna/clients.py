"""What is known of Kafka clients: clients.json, written by the client matrix (tests/compat)."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from lacuna.errors import UserError

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario's outcome: same, right (here and not with Kafka), as Kafka (fails), unsupported, differs."""

    outcome: str
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One version of a client that was run, or why it was not (`outcome`, `what`)."""

    name: str
    version: str
    language: str
    kafka: str
    cells: dict[str, Cell] = field(default_factory=dict)
    outcome: str = ""
    what: str = ""
    notes: str = ""
    advice: str = ""
    also: tuple[str, ...] = ()

    @property
    def differing(self) -> list[str]:
        """The scenarios in which it does something else here than with Kafka."""
        return [name for name, cell in self.cells.items() if cell.outcome == "differs"]


@dataclass(frozen=True, slots=True)
class ClientQuery:
    """NAME@VERSION; the version may be "", for any."""

    name: str
    version: str = ""

    def is_of(self, one: Client) -> bool:
        """Whether it asks for that very version, or for any: 4.1 is 4.1.0, in whichever way it was run."""
        return not self.version or _order(self.version) == _order(one.version)


def load() -> list[Client]:
    """All clients, in the matrix's order."""
    text = resources.files("lacuna").joinpath("clients.json").read_text(encoding="utf-8")
    return [_client(one) for one in json.loads(text)["clients"]]


def parse(text: str) -> ClientQuery:
    """Raises UserError for what is not NAME or NAME@VERSION."""
    name, at, version = text.strip().rpartition("@")
    if not at:
        name, version = version, ""
    if not name or (at and not version):
        raise UserError(f"{text!r} names no client: write NAME@VERSION, as librdkafka@2.16.1")
    return ClientQuery(name, version)


def nearest(clients: Iterable[Client], asked: ClientQuery) -> list[Client]:
    """That version; or the nearest below and above; or, without a version, all. Empty for an unknown name."""
    known = [one for one in clients if asked.name.lower() in _names(one)]
    if not asked.version:
        return known
    wanted = _order(asked.version)
    if exact := [one for one in known if _order(one.version) == wanted]:
        return exact
    below = [one for one in known if _order(one.version) < wanted]
    above = [one for one in known if _order(one.version) > wanted]
    return [*_all_of(below, max), *_all_of(above, min)]


def known_names(clients: Iterable[Client]) -> list[str]:
    """The names, each once."""
    return list(dict.fromkeys(one.name for one in clients))


def _all_of(clients: list[Client], pick: Any) -> list[Client]:
    """Those of the version that `pick` picks: a version may have been run in several ways."""
    if not clients:
        return []
    version = pick(_order(one.version) for one in clients)
    return [one for one in clients if _order(one.version) == version]


def _names(one: Client) -> set[str]:
    return {name.lower() for name in (one.name, *one.also)}


def _order(version: str) -> tuple[int, ...]:
    """2.16.1 (group.protocol=consumer) -> (2, 16, 1); zeros at the end do not count."""
    numbers = [int(number) for number in _NUMBER.findall(version.split(" ", 1)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _client(one: dict[str, Any]) -> Client:
    cells = {name: Cell(**cell) for name, cell in one.get("cells", {}).items()}
    texts = ("outcome", "what", "notes", "advice")
    return Client(
        name=one["name"],
        version=one["version"],
        language=one["language"],
        kafka=one["kafka"],
        cells=cells,
        also=tuple(one.get("also", ())),
        **{name: one[name] for name in texts if name in one},
    )
