"""How numbers, times and bytes are written on pages."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
#: The largest time that datetime knows, in milliseconds.
_LAST_MS: Final = 253_402_300_799_999
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
#: JSON of so many characters stays on one line.
_LINE: Final = 80
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def number(value: float) -> str:
    """A whole number with commas between thousands; any other with up to two decimals."""
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def short(value: float) -> str:
    """A number in at most five characters or so: 950, 12.3k, 4.5M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if abs(value) >= size:
            scale = 1_000 if unit == "k" else size
            return f"{value / scale:.1f}{unit}"
    return number(value)


def size(value: float) -> str:
    """A number of bytes in the largest unit that gives at least 1."""
    at = 0
    while value >= 1024 and at < len(_UNITS) - 1:
        value, at = value / 1024, at + 1
    return f"{int(value)} {_UNITS[0]}" if not at else f"{value:.1f} {_UNITS[at]}"


def duration(seconds: float) -> str:
    """A duration in its two largest units: 850 ms, 12.5 s, 3 min 20 s, 2 d 4 h."""
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


def moment(milliseconds: int) -> str:
    """A time in UTC, with milliseconds; an empty text for none, and the number itself beyond the year 9999."""
    if milliseconds < 0:
        return ""
    if milliseconds > _LAST_MS:
        return str(milliseconds)
    found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return found.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}"


def visible(text: str) -> str:
    """The text with what cannot be seen, or turns the direction of writing, as escapes; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        each
        if each in "\n\t" or unicodedata.category(each) not in _CONTROLS
        else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def name(text: str) -> str:
    """A name on one line: as `visible`, with line ends and tabs as escapes too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shown(data: bytes | None, how: str, most: int) -> tuple[str, str, bool]:
    """Bytes as text: what to show, how it was decoded, and whether it was cut.

    `how` is auto, text, json or hex; what is no JSON is shown as text, and what is no UTF-8 as hex. A tombstone or a
    missing key is "null".
    """
    if data is None:
        return "null", "null", False
    if how != "hex":
        if how in ("auto", "json") and data[:1] in (b"{", b"[") and len(data) <= most:
            try:
                found = json.loads(data)
                text = json.dumps(found, ensure_ascii=False)
                if len(text) > _LINE:
                    text = json.dumps(found, indent=2, ensure_ascii=False)
            except (ValueError, RecursionError):
                pass  # it only begins like JSON, and is shown as the text that it is
            else:
                return visible(text), "json", False
        try:
            # What is cut may end within a character.
            text = data[:most].decode("utf-8", "strict" if len(data) <= most else "ignore")
        except UnicodeDecodeError:
            pass  # bytes, which are shown as such
        else:
            return visible(text), "text", len(data) > most
    begin = data[:most]
    rows = (begin[at : at + 16].hex(" ") for at in range(0, len(begin), 16))
    return "\n".join(rows), "hex", len(data) > most
