"""Settings that users can change. Each field declared with `setting` is a row of one table.

A row defines the key for config files and `--set`, the environment variable, and sometimes a command-line option. The
commands, validation, DescribeConfigs and docs/configuration.md are all based on this table. The other fields of a
settings class are fixed bounds, which only tests change.
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
#: The last word of a key → the units of its values, and an example.
_UNITS: Final[Mapping[str, tuple[Mapping[str, int], str]]] = {
    "bytes": (_BYTES, ", in bytes or with a unit, such as 16MiB"),
    "minutes": (_MINUTES, ", in minutes or with a unit, such as 7d"),
    "ms": (_MILLISECONDS, ", in milliseconds or with a unit, such as 30s"),
}
_NUMBER: Final = re.compile(r"([0-9]{1,18}) ?([A-Za-z]*)")


class SettingsError(ValueError):
    """A setting has an invalid value. The message names the setting and the allowed values."""


def as_text(value: object) -> str:
    """Return a value as text that `Setting.parse` accepts."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table.

    Numbers are in the unit at the end of the key, and lie between `least` and `most`, inclusive. Text must be one of
    `choices`, if any are given.
    """

    key: str
    default: Value
    documentation: str
    least: int = 0
    most: int = LARGEST
    choices: tuple[str, ...] = ()
    option: str = ""
    """The command-line option for the setting."""
    short: str = ""
    """The short form of the option, such as `-d`."""
    flag: Value | None = None
    """The value that the option sets, if the option is a flag."""
    help: str = ""
    """The help text of the option, where it differs from the documentation of the key."""
    metavar: str = ""
    panel: str = ""
    """The heading on help pages under which the option is listed."""
    yields_to: tuple[str, ...] = ()
    """Options that replace this one. If one of them is given, this setting's variable and config key are ignored."""

    @property
    def variable(self) -> str:
        """The environment variable, such as LACUNA_NUM_PARTITIONS for num.partitions."""
        return f"LACUNA_{self.key.upper().replace('.', '_')}"

    @property
    def allowed(self) -> str:
        """The allowed values, for error messages and documentation."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return " or ".join(each or "nothing" for each in self.choices) or "text"
        return f"a value from {self.least} to {self.most}{self._units()[1]}"

    @property
    def bounds(self) -> str:
        """The smallest and largest allowed numbers, for help pages, or "" if there are none."""
        if isinstance(self.default, bool | str) or self.most == LARGEST:
            return ""
        return f"{self.least} to {self.most}"

    @property
    def shown_default(self) -> str:
        """The default as shown on help pages, in mebibytes if it is a whole number of them."""
        if self.key.endswith(".bytes") and not int(self.default) % MEBIBYTE:
            return f"{int(self.default) // MEBIBYTE}MiB"
        return as_text(self.default)

    def parse(self, given: object) -> Value:
        """Return the value of `given`, which is text or a TOML value. Raises SettingsError."""
        if isinstance(given, list):
            raise SettingsError(f"{self.key} is a list: specify a single value")
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
        """Return the value if it is allowed. Raises SettingsError otherwise."""
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


def setting(key: str, default: Value, documentation: str, **more: Any) -> Any:
    """Declare a field of a settings class that users can change. `more` sets further fields of its `Setting`."""
    row = Setting(key=key, default=default, documentation=documentation, **more)
    return field(default=default, metadata={"setting": row})


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """Return the settings of a class by field name."""
    rows = {each.name: each.metadata.get("setting") for each in fields(kind)}
    return {name: row for name, row in rows.items() if row is not None}


def check_settings(settings: Any) -> None:
    """Check every setting of an instance. Raises SettingsError."""
    for name, row in settings_of(type(settings)).items():
        row.check(getattr(settings, name))
