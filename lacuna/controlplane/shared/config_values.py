"""Checks config values as Kafka does (ConfigDef): types, allowed values, and error messages.

A check takes the text of a value and returns it in Kafka's form (" 5 " becomes "5", "TRUE" becomes "true", "delete,
compact" becomes "delete,compact"), or raises a ValueError, whose message becomes part of the client's error message.
"""

import math
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

Check: TypeAlias = Callable[[str], str]


class ConfigType(IntEnum):
    """Types of configs, numbered as in DescribeConfigs since v3 (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


LONG_MAX: Final = 2**63 - 1
_BITS: Final = {ConfigType.INT: 31, ConfigType.LONG: 63}
# The number of digits is limited because int() raises an error for thousands of them, which would stop the control
# plane.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?"
)
_THROTTLED: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_MIRRORED: Final = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,249}")
_LONGEST_SHOWN: Final = 100


def shorten(text: str) -> str:
    """Cut `text` from a peer to 100 characters, for quoting in an error message."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def printable(text: str) -> str:
    """Return `text` from a peer in a form that can be logged: cut to 100 characters, and on one line."""
    text = shorten(text)
    return text if text.isprintable() else ascii(text)[1:-1]


def items_of(value: str) -> list[str]:
    """Split a comma-separated list into its elements, dropping blanks and duplicates."""
    return list(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))


def whole(
    kind: ConfigType, lowest: int, highest: int | None = None, also: int | None = None
) -> Check:
    """Return a check for an INT or LONG (`kind`) between `lowest` and `highest`, or equal to `also`."""

    def check(value: str) -> str:
        text = value.strip()
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        if number is None or not -(1 << _BITS[kind]) <= number < 1 << _BITS[kind]:
            raise ValueError(f"Not a number of type {kind.name}")
        if number == also:
            return str(number)
        if also is not None and not lowest <= number <= (highest or number):
            raise ValueError(f"Value must be between {lowest} and {highest} or equal to {also}")
        if number < lowest:
            raise ValueError(f"Value must be at least {lowest}")
        if highest is not None and number > highest:
            raise ValueError(f"Value must be no more than {highest}")
        return str(number)

    return check


def ratio(value: str) -> str:
    """Check a DOUBLE from 0 to 1."""
    text = value.strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if math.isnan(number):
        raise ValueError("Not a number of type DOUBLE")
    if number < 0:
        raise ValueError("Value must be at least 0")
    if number > 1:
        raise ValueError("Value must be no more than 1")
    return str(number)


def real(value: str) -> str:
    """Check a DOUBLE."""
    text = value.strip()
    if not _NUMBER.fullmatch(text.lstrip("+-")):
        raise ValueError("Not a number of type DOUBLE")
    return str(float(text))


def boolean(value: str) -> str:
    """Check that the value is "true" or "false" in any case, and return it in lower case."""
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text


def one_of(*allowed: str) -> Check:
    """Return a check that accepts one of these strings."""

    def check(value: str) -> str:
        text = value.strip()
        if text not in allowed:
            raise ValueError(f"String must be one of: {', '.join(allowed)}")
        return text

    return check


def some_of(*allowed: str) -> Check:
    """Return a check that accepts a list of these strings, which may be empty."""

    def check(value: str) -> str:
        items = items_of(value)
        if not set(items) <= set(allowed):
            raise ValueError(f"String must be one of: {', '.join(allowed)}")
        return ",".join(items)

    return check


def mirrored_topic(value: str) -> str:
    """Check that the value is empty, or consists of a cluster id and the id of a topic in that cluster."""
    text = value.strip()
    if text and not _MIRRORED.fullmatch(text):
        raise ValueError("it must be the id of a cluster, a slash, and the id of a topic")
    return text


def throttled_replicas(value: str) -> str:
    """Check that the value is empty, "*", or a list of partition:broker pairs."""
    items = items_of(value)
    if items != ["*"] and not all(_THROTTLED.fullmatch(item) for item in items):
        raise ValueError(
            "it must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
    return ",".join(items)
