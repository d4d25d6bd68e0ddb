"""Every message of lacuna.wire, and values built from the fields of one version."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from lacuna.wire import messages as package
from lacuna.wire import peers
from lacuna.wire.layout import Message, Struct


def _found() -> dict[str, Message[Any]]:
    generated = (
        import_module(f"{package.__name__}.{each.name}")
        for each in pkgutil.iter_modules(package.__path__)
    )
    modules = (*generated, peers)
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Message)
    }


MESSAGES = _found()
REQUESTS = {each.api_key: each for name, each in MESSAGES.items() if name.endswith("_REQUEST")}
RESPONSES = {each.api_key: each for name, each in MESSAGES.items() if name.endswith("_RESPONSE")}


def versions_of(message: Message[Any]) -> range:
    return range(message.versions[0], message.versions[1] + 1)


def versions(api_key: int) -> range:
    """Return all versions of an API, from v0 if Kafka 3.9 has it."""
    return versions_of(REQUESTS[api_key])


@cache
def names(struct: Struct, version: int) -> list[str]:
    """Return the fields of a version."""
    fields = zip(struct.make._fields, struct.fields, strict=True)
    return [name for name, field in fields if field.is_in(version)]


def make(struct: Struct, version: int, /, **fields: Any) -> Any:
    """Return a value with these fields and defaults for the rest. Raises TypeError if the version lacks a field."""
    if unknown := fields.keys() - set(names(struct, version)):
        raise TypeError(f"v{version} of {struct.make.__name__} lacks {', '.join(unknown)}")
    return struct.make(**fields)


def request(api_key: int, version: int, /, **fields: Any) -> Any:
    """Return a request. See `make`."""
    return make(REQUESTS[api_key].body, version, **fields)


def struct_of(message: Message[Any], name: str) -> Struct:
    """Return the struct that Kafka calls `name` in a message. Its class may begin with the name of the message."""
    names = (name, f"{message.body.make.__name__}{name}")
    return next(each for each in _structs(message.body) if each.make.__name__ in names)


def nested(api_key: int, version: int, name: str, /, **fields: Any) -> Any:
    """Return a value of the class `name`, which is nested in requests of this API. See `make`."""
    return make(_struct_of_request(api_key, name), version, **fields)


@cache
def _struct_of_request(api_key: int, name: str) -> Struct:
    return struct_of(REQUESTS[api_key], name)


def encode_body(api_key: int, version: int, asked: Any) -> bytes:
    """Return the bytes of a request, without its header."""
    return REQUESTS[api_key].write(asked, version)


def read_exactly(message: Message[Any], body: bytes, version: int) -> Any:
    """Return the message that takes up all of `body`."""
    found = message.read(memoryview(body), version)
    assert message.write(found, version) == body
    return found


def _structs(struct: Struct) -> Iterator[Struct]:
    yield struct
    for field in struct.fields:
        if isinstance(field.kind, Struct):
            yield from _structs(field.kind)
