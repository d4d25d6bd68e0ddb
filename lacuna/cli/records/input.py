"""The input of `lacuna produce`: lines, JSON lines, or whole files."""

import json
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from lacuna.base.errors import UserError

Header = tuple[str, bytes | None]

#: The fields of a JSON line. `consume --json` also prints the last three, which have no meaning for a new record.
_FIELDS: Final = frozenset(
    {"key", "value", "headers", "partition", "timestamp", "topic", "offset", "timestamp_type"}
)
_STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Record:
    """A record to write. Without a partition, the key determines it. `timestamp` is in milliseconds since 1970."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None

    def arguments(self, headers: Sequence[Header]) -> dict[str, Any]:
        """Return the arguments for confluent-kafka's `produce`, with `headers` added."""
        given: dict[str, Any] = {
            "key": self.key,
            "value": self.value,
            "headers": [*headers, *self.headers],
        }
        if self.partition is not None:
            given["partition"] = self.partition
        if self.timestamp is not None:
            given["timestamp"] = self.timestamp
        return given


def lines_of(files: Sequence[Path]) -> Iterator[bytes]:
    """Yield the lines of files, or of standard input if there are none, without their line ends. Raises UserError."""
    for file in files or (Path(_STANDARD_INPUT),):
        with _opened(file) as stream:
            for line in stream:
                yield line.removesuffix(b"\n")


def whole_files(files: Sequence[Path]) -> Iterator[Record]:
    """Yield a record for each file, with the file's content as the value. Raises UserError."""
    for file in files:
        with _opened(file) as stream:
            yield Record(value=stream.read())


def plain_records(
    lines: Iterator[bytes], separator: bytes | None, *, null: bool
) -> Iterator[Record]:
    """Yield a record for each line, with the key before the separator, if any. With `null`, empty values are null."""
    for line in lines:
        key: bytes | None = None
        value: bytes | None = line
        if separator is not None and separator in line:
            key, _, value = line.partition(separator)
        if null and not value:
            value = None
        yield Record(key, value)


def json_records(lines: Iterator[bytes]) -> Iterator[Record]:
    """Yield a record for each line, a JSON object as `consume --json` prints it. Skips empty lines.

    Raises UserError with the number of the invalid line.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _record(json.loads(line))
        except (ValueError, TypeError) as error:
            raise UserError(f"line {number}: {error}") from error


def _record(fields: Any) -> Record:
    if not isinstance(fields, dict):
        raise TypeError('it is not a JSON object: use {"key": "k", "value": "v"}')
    if unknown := fields.keys() - _FIELDS:
        raise ValueError(
            f"{min(unknown)} is not a field: choose one of {', '.join(sorted(_FIELDS))}"
        )
    return Record(
        key=_bytes(fields.get("key")),
        value=_bytes(fields.get("value")),
        headers=_headers(fields.get("headers") or ()),
        partition=_number(fields, "partition"),
        timestamp=_number(fields, "timestamp"),
    )


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{name} {number!r} is not a number of 0 or more")
    return number


def _headers(given: Any) -> list[Header]:
    """Parse headers: an object or, as `consume --json` prints them, a list of objects."""
    if isinstance(given, dict):
        return [(name, _bytes(value)) for name, value in given.items()]
    if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in given):
        raise ValueError('headers must be an object, or a list of {"name": TEXT, "value": TEXT}')
    return [(each["name"], _bytes(each.get("value"))) for each in given]


def _bytes(value: Any) -> bytes | None:
    """Parse a key or value: text, {"base64": TEXT}, or any other JSON, which is kept as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _opened(file: Path) -> BinaryIO:
    if str(file) == _STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return file.open("rb")
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from error
