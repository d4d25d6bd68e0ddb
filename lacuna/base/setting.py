"""Settings that a user can change. Together, the fields that `setting` makes are the one table of them.

A field has a key for config files and `--set`, an environment variable and perhaps an option of its own. The commands,
the checks of values, DescribeConfigs and docs/configuration.md all read this table. A field of a settings class that
`setting` did not make is a fixed bound: only tests choose another.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

Value = bool | int | str

MEBIBYTE: Final = 1 << 20
LARGEST_INT: Final = (1 << 31) - 1
LARGEST: Final = 1 << 40

_MINUTES: Final = {"": 1, "m": 1, "h": 60, "d": 1440}
_MILLISECONDS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES: Final = {"": 1, "kib": 1 << 10, "mib": MEBIBYTE, "gib": 1 << 30}
#: The last word of a key -> the units that its values may have, and an example.
_UNITS: Final[Mapping[str, tuple[Mapping[str, int], str]]] = {
    "bytes": (_BYTES, ", in bytes or with a unit, as 16MiB"),
    "minutes": (_MINUTES, ", in minutes or with a unit, as 7d"),
    "ms": (_MILLISECONDS, ", in milliseconds or with a unit, as 30s"),
}
_NUMBER: Final = re.compile(r"([0-9]{1,18}) ?([A-Za-z]*)")


class SettingsError(ValueError):
    """A setting has a value that cannot work. The message names it and says which values can."""


def as_text(value: object) -> str:
    """Return a value as `Setting.parse` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table. A number is in the unit that ends its key, from `least` to `most`.

    A text is one of `choices`, if there are any.
    """

    key: str
    default: Value
    documentation: str
    least: int = 0
    most: int = LARGEST
    option: str = ""
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable, as LACUNA_NUM_PARTITIONS for num.partitions."""
        return f"LACUNA_{self.key.upper().replace('.', '_')}"

    @property
    def allowed(self) -> str:
        """The values that are allowed, for error messages and documentation."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return " or ".join(each or "nothing" for each in self.choices) or "text"
        return f"a value from {self.least} to {self.most}{self._units()[1]}"

    def parse(self, given: object) -> Value:
        """Return the value that `given` means: text, or a value of TOML. Raises SettingsError."""
        value = given.strip() if isinstance(given, str) else given
        if isinstance(self.default, bool):
            value = {"true": True, "false": False}.get(str(value).lower())
        elif isinstance(self.default, int) and isinstance(value, str):
            value = self._number(value)
        if type(value) is not type(self.default):
            raise self._error(given)
        assert isinstance(value, Value)
        return self.check(value)

    def check(self, value: Value) -> Value:
        """Return the value if it is within the bounds. Raises SettingsError."""
        if isinstance(self.default, int) and not self.least <= int(value) <= self.most:
            raise self._error(value)
        if self.choices and value not in self.choices:
            raise self._error(value)
        return value

    def _units(self) -> tuple[Mapping[str, int], str]:
        return _UNITS.get(self.key.rpartition(".")[2], ({"": 1}, ""))

    def _number(self, text: str) -> int | None:
        match = _NUMBER.fullmatch(text)
        scale = self._units()[0].get(match[2].lower()) if match else None
        return int(match[1]) * scale if match and scale else None

    def _error(self, given: object) -> SettingsError:
        return SettingsError(f"{self.key} is {as_text(given)[:100]}: choose {self.allowed}")


def setting(
    key: str,
    default: Value,
    documentation: str,
    *,
    least: int = 0,
    most: int = LARGEST,
    option: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """Make a field of a settings class that a user can change. `option` is the command's own option for it."""
    row = Setting(
        key=key,
        default=default,
        documentation=documentation,
        least=least,
        most=most,
        option=option,
        choices=choices,
    )
    return field(default=default, metadata={"setting": row})


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """Return the settings of a class by the name of their field."""
    found = {each.name: each.metadata.get("setting") for each in fields(kind)}
    return {name: row for name, row in found.items() if row is not None}


def check_settings(settings: Any) -> None:
    """Check every setting of an instance. Raises SettingsError."""
    for name, row in settings_of(type(settings)).items():
        row.check(getattr(settings, name))
