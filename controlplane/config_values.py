"""Values of configs as Kafka reads them (ConfigDef): a type, what a value may be, and Kafka's sentences.

A check takes the text of a value and gives it back as Kafka shows it (" 5 " is "5", "TRUE" is "true",
"delete, compact" is "delete,compact"), or raises a ValueError whose message is the end of the sentence that
the client reads.
"""

import math
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

Check: TypeAlias = Callable[[str], str]


class ConfigType(IntEnum):
    """The numbers of DescribeConfigs v3+ (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


LONG_MAX: Final = 2**63 - 1
_BITS: Final = {ConfigType.INT: 31, ConfigType.LONG: 63}
# int() raises for thousands of digits, which would end the control plane.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?"
)
_THROTTLED: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_LONGEST_SHOWN: Final = 100


def shorten(text: str) -> str:
    """What a peer sent, short enough to be told back: an answer has no room for 32 KiB of it."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def items_of(value: str) -> list[str]:
    """The elements of a list, each once."""
    return list(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))


def whole(
    kind: ConfigType, lowest: int, highest: int | None = None, also: int | None = None
) -> Check:
    """An INT or LONG from `lowest` to `highest`, or `also`."""

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
    """A DOUBLE from 0 to 1."""
    text = value.strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if math.isnan(number):
        raise ValueError("Not a number of type DOUBLE")
    if number < 0:
        raise ValueError("Value must be at least 0")
    if number > 1:
        raise ValueError("Value must be no more than 1")
    return str(number)


def boolean(value: str) -> str:
    """ "true" or "false", in any case."""
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text


def one_of(*allowed: str) -> Check:
    """One of these strings."""

    def check(value: str) -> str:
        text = value.strip()
        if text not in allowed:
            raise ValueError(f"String must be one of: {', '.join(allowed)}")
        return text

    return check


def some_of(*allowed: str) -> Check:
    """A list of these strings; it may be empty."""

    def check(value: str) -> str:
        items = items_of(value)
        if not set(items) <= set(allowed):
            raise ValueError(f"String must be one of: {', '.join(allowed)}")
        return ",".join(items)

    return check


def throttled_replicas(value: str) -> str:
    """Nothing, "*", or a list of partition:broker."""
    items = items_of(value)
    if items != ["*"] and not all(_THROTTLED.fullmatch(item) for item in items):
        raise ValueError(
            "it must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
    return ",".join(items)
