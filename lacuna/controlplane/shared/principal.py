"""Principals: the identities of connections (KIP-11)."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type, which is User for all authenticated clients, and a name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Parse a principal of the form TYPE:NAME. Raises ValueError."""
    kind, colon, name = text.strip().partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{text!r} is not a principal: write TYPE:NAME, such as User:alice")
    return Principal(kind, name)


def parse_principals(text: str) -> frozenset[Principal]:
    """Parse a semicolon-separated list of principals, as in super.users. Raises ValueError."""
    return frozenset(parse_principal(each) for each in text.split(";") if each.strip())
