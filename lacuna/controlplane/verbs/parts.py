"""Bounds on the items of commands and answers, so that no decision takes long (see `shared.parts`)."""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any, TypeVar

from google.protobuf.message import Message

from lacuna.controlplane.shared.parts import ANSWER_BYTES, ITEMS, MOST_AT_ONCE, MOST_ITEMS, WHOLE
from lacuna.controlplane.verbs.refusals import MalformedCommand

Item = TypeVar("Item")
Answer = TypeVar("Answer", bound=Message)
Key = TypeVar("Key", str, tuple[bytes, int], int)


def check_length(verb: str, message: Any) -> None:
    """Raise MalformedCommand if a command names too many items to decide in one step."""
    if verb in ITEMS:
        field, most = ITEMS[verb][0], MOST_ITEMS
    elif verb in WHOLE:
        field, most = WHOLE[verb], MOST_AT_ONCE
    else:
        return
    count = len(getattr(message, field))
    if count > most:
        name = field.replace("_", " ")
        raise MalformedCommand(
            f"one command may name at most {most} {name}, not {count}: send several commands"
        )


def until_full(items: Iterable[Item], answer: Callable[[Item], Answer]) -> list[Answer]:
    """Answer items in order, until one reply is full."""
    answers: list[Answer] = []
    size = 0
    for item in items:
        answers.append(found := answer(item))
        size += found.ByteSize()
        if size >= ANSWER_BYTES:
            break
    return answers


def following(keys: Iterable[Key], after: Key | None, most: int) -> tuple[list[Key], Key | None]:
    """Return the `most` smallest keys beyond `after`, and the last of them if more follow, otherwise None."""
    beyond = keys if after is None else (each for each in keys if each > after)
    found = nsmallest(most + 1, beyond)
    return (found, None) if len(found) <= most else (found[:most], found[most - 1])
