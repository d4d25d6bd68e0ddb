"""Formats numbers, times and bytes for pages."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
#: The latest time that datetime can represent, in milliseconds.
_LAST_MS: Final = 253_402_300_799_999
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
#: The largest value that a config can have.
_NO_LIMIT: Final = (1 << 63) - 1
#: JSON of up to this many characters stays on one line.
_LINE: Final = 80
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def number(value: float) -> str:
    """Format a number with thousands separators and, if it is not whole, up to two decimals."""
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def short(value: float) -> str:
    """Format a number in about five characters: 950, 12.3k, 4.5M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if abs(value) >= size:
            scale = 1_000 if unit == "k" else size
            return f"{value / scale:.1f}{unit}"
    return number(value)


def size(value: float) -> str:
    """Format a number of bytes in the largest unit in which it is at least 1."""
    at = 0
    while value >= 1024 and at < len(_UNITS) - 1:
        value, at = value / 1024, at + 1
    return f"{int(value)} {_UNITS[0]}" if not at else f"{value:.1f} {_UNITS[at]}"


def duration(seconds: float) -> str:
    """Format a duration in its two largest units: 850 ms, 12.5 s, 3 min 20 s, 2 d 4 h."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    units = (*_AGES, (1, "s"))
    for at, (length, name) in enumerate(units[:-1]):
        if whole >= length:
            rest_length, rest_name = units[at + 1]
            rest = whole % length // rest_length
            return f"{whole // length} {name}" + (f" {rest} {rest_name}" if rest else "")
    raise AssertionError(seconds)


def in_units(name: str, value: str) -> str:
    """Format a config's value in the unit at the end of the config's name, or return "" if there is no unit."""
    unit = name.rpartition(".")[2]
    if unit not in ("ms", "bytes") or not value.removeprefix("-").isdecimal():
        return ""
    amount = int(value)
    if amount in (-1, _NO_LIMIT):
        return "no limit"
    if amount < 0:
        return ""
    return duration(amount / 1000) if unit == "ms" else size(amount)


def moment(milliseconds: int) -> str:
    """Format a time in UTC with milliseconds. Return "" for no time, and the number itself beyond the year 9999."""
    if milliseconds < 0:
        return ""
    if milliseconds > _LAST_MS:
        return str(milliseconds)
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}"


def visible(text: str) -> str:
    """Escape invisible characters and changes of text direction, except line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(
        each
        if each in "\n\t" or unicodedata.category(each) not in _CONTROLS
        else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def name(text: str) -> str:
    """Escape a name as `visible` does, and also its line ends and tabs, so that it fits on one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shown(data: bytes | None, how: str, most: int) -> tuple[str, str, bool]:
    """Return bytes as text, the format that was used, and whether the text was truncated.

    `how` is auto, text, json or hex. Bytes that are not JSON are shown as text, and bytes that are not UTF-8 as hex. A
    tombstone or missing key is "null".
    """
    if data is None:
        return "null", "null", False
    if how != "hex":
        if how in ("auto", "json") and data[:1] in (b"{", b"[") and len(data) <= most:
            try:
                value = json.loads(data)
                text = json.dumps(value, ensure_ascii=False)
                if len(text) > _LINE:
                    text = json.dumps(value, indent=2, ensure_ascii=False)
            except (ValueError, RecursionError):
                pass  # it only begins like JSON, so it is shown as text
            else:
                return visible(text), "json", False
        try:
            # The cut may fall within a character.
            text = data[:most].decode("utf-8", "strict" if len(data) <= most else "ignore")
        except UnicodeDecodeError:
            pass  # not text, so it is shown as hex
        else:
            return visible(text), "text", len(data) > most
    begin = data[:most]
    rows = (begin[at : at + 16].hex(" ") for at in range(0, len(begin), 16))
    return "\n".join(rows), "hex", len(data) > most
