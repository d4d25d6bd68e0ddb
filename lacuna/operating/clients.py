"""The results of Kafka clients in the client matrix (tests/compat), from clients.json."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any

from lacuna.base.errors import UserError

_NUMBER = re.compile(r"\d+")
#: Matches 2.16.1, v4.1.0-rc1, 1.0b2, and versions as the matrix writes them: 4.4.0 (group.protocol=consumer).
_VERSION = re.compile(r"v?\d{1,9}(?:\.\d{1,9}){0,9}(?:[-.+]?[A-Za-z][\w.+-]{0,30})?(?: \(.+\))?")


@dataclass(frozen=True, slots=True)
class Cell:
    """The outcome of one scenario, which `what` explains.

    `outcome` is same, right (correct here but not with Kafka), as Kafka (fails with both), unsupported, or differs.
    """

    outcome: str
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A version of a client and its results by scenario. If it was not run, `outcome` and `what` say why."""

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
        """The scenarios in which the client behaves differently with Lacuna than with Kafka."""
        return self._having("differs")

    @property
    def summary(self) -> str:
        """How the client behaves, in one line."""
        if not self.cells:
            return f"{self.outcome}: {self.what}"
        if self.differing:
            return f"differs from Kafka in {', '.join(self.differing)}"
        failing, lacking = self._having("as Kafka"), self._having("unsupported")
        parts = ["as with Kafka"]
        parts += [f"fails with Kafka too: {', '.join(failing)}"] if failing else []
        parts += [f"does not support {', '.join(lacking)}"] if lacking else []
        return "; ".join(parts)

    def _having(self, outcome: str) -> list[str]:
        return [name for name, cell in self.cells.items() if cell.outcome == outcome]


@dataclass(frozen=True, slots=True)
class ClientQuery:
    """A parsed NAME@VERSION. An empty version matches any version."""

    name: str
    version: str = ""

    def is_of(self, one: Client) -> bool:
        """Whether a client's version matches: 4.1 equals 4.1.0, and text in parentheses is ignored."""
        return not self.version or _order(self.version) == _order(one.version)


def load() -> list[Client]:
    """Return all clients in clients.json, in the order of the client matrix."""
    text = resources.files(__package__).joinpath("clients.json").read_text(encoding="utf-8")
    return [_client(one) for one in json.loads(text)["clients"]]


def parse(text: str) -> ClientQuery:
    """Parse NAME or NAME@VERSION. Raises UserError for anything else."""
    name, at, version = text.strip().rpartition("@")
    if not at:
        name, version = version, ""
    if not name or (at and not version):
        raise UserError(
            f"{text!r} is not a client: use NAME@VERSION, for example librdkafka@2.16.1"
        )
    if at and not _VERSION.fullmatch(version):
        raise UserError(
            f"{version!r} is not a version: use NAME@VERSION, for example librdkafka@2.16.1, or just "
            "the name for every version tested"
        )
    return ClientQuery(name, version)


def nearest(clients: Iterable[Client], query: ClientQuery) -> list[Client]:
    """Return the clients that match a query.

    For a version that was not tested, these are the nearest versions below and above; without a version, all of them;
    for an unknown name, none.
    """
    known = [one for one in clients if query.name.lower() in _names(one)]
    if not query.version:
        return known
    wanted = _order(query.version)
    if exact := [one for one in known if _order(one.version) == wanted]:
        return exact
    below = [one for one in known if _order(one.version) < wanted]
    above = [one for one in known if _order(one.version) > wanted]
    return [*_all_of(below, max), *_all_of(above, min)]


def known_names(clients: Iterable[Client]) -> list[str]:
    """Return the clients' names without duplicates, in the order of the matrix."""
    return list(dict.fromkeys(one.name for one in clients))


def _all_of(clients: list[Client], pick: Any) -> list[Client]:
    """Return all entries for the version that `pick` chooses, which may have been run in several ways."""
    if not clients:
        return []
    version = pick(_order(one.version) for one in clients)
    return [one for one in clients if _order(one.version) == version]


def _names(one: Client) -> set[str]:
    return {name.lower() for name in (one.name, *one.also)}


def _order(version: str) -> tuple[int, ...]:
    """Return a version's sort key, without trailing zeros: (2, 16, 1) for 2.16.1 (group.protocol=consumer)."""
    numbers = [int(number) for number in _NUMBER.findall(version.split(" ", 1)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _client(one: dict[str, Any]) -> Client:
    cells = {name: Cell(**cell) for name, cell in one.get("cells", {}).items()}
    known = {each.name: one[each.name] for each in fields(Client) if each.name in one}
    return Client(**{**known, "cells": cells, "also": tuple(one.get("also", ()))})
