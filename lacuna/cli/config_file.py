"""The config file, set with `lacuna --config FILE` or LACUNA_CONFIG, which holds settings and options for any command.

A key is the command and the option as typed, joined with dots: `groups.reset.to`. An option that several commands share
has a single key, named after its variable: `bootstrap` for LACUNA_BOOTSTRAP.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import click
from click.core import ParameterSource

from lacuna.base.errors import UserError, did_you_mean

#: Where the root context keeps the file, for all commands below it.
_FILE: Final = "lacuna.config"
#: Where the root context keeps the profile's name and its options.
_PROFILE: Final = "lacuna.profile"
_OF_PROFILE: Final = "lacuna.profile.options"
_CURRENT: Final = "current"
_PREFIX: Final = "LACUNA_"
#: Variables of many commands. A command accepts them without importing the other commands.
_SHARED: Final = frozenset(
    f"LACUNA_{name}"
    for name in (
        "BOOTSTRAP", "COMMAND_CONFIG", "CONFIG", "CONTROL", "DATA", "ENCRYPTION_KEYS", "ENCRYPTION_KEY_COMMAND",
        "PROFILE", "SPARK_MASTER", "STORE",
    )
)  # fmt: skip
#: The suffixes of the variables that Kubernetes sets for the address of a service.
_OF_KUBERNETES: Final = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$"
)
#: Variables that a supervisor sets for its workers.
_INTERNAL: Final = (
    "LACUNA_SUPERVISED",
    "LACUNA_WORKER",
    "LACUNA_WORKERS_FOLDER",
    "LACUNA_WORKER_NAME",
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A parsed config file. TOML turns the dots in keys into nested tables."""

    path: Path
    tables: dict[str, object]

    @property
    def values(self) -> Mapping[str, object]:
        """The file's values, by dotted key."""
        return dict(_flattened(self.tables))


@dataclass(frozen=True, slots=True)
class Profiles:
    """The current profile's name, or "", and each profile's options by key."""

    current: str
    options: Mapping[str, Mapping[str, str]]


class Vocabulary(Protocol):
    """The part of `lacuna.cli.tables` that this module uses.

    `tables` imports this module, so the root context loads `tables`.
    """

    @property
    def ROWS(self) -> Mapping[str, object]: ...  # noqa: N802 - a constant of that module

    def all_keys(self) -> set[str]: ...

    def all_variables(self) -> set[str]: ...

    def variables(self) -> set[str]: ...


def profiles_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "lacuna" / "profiles.toml"


def read_profiles(path: Path) -> Profiles:
    """Reads the profiles file, which may be missing. Raises UserError if it is unreadable or not valid TOML."""
    if not path.exists():
        return Profiles("", {})
    values = read_file(path).tables
    current = values.pop(_CURRENT, "")
    profiles = {name: each for name, each in values.items() if isinstance(each, dict)}
    return Profiles(str(current), profiles)


def take_profile(context: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    """Stores the options of the profile named with --profile, or of the current profile, for the command that follows.

    Raises UserError if there is no such profile.
    """
    if context.resilient_parsing:
        return
    profiles = read_profiles(profiles_path())
    if name:
        check_profile(name, profiles)
    chosen = name or profiles.current
    if chosen in profiles.options:
        context.meta[_PROFILE] = chosen
        context.meta[_OF_PROFILE] = profiles.options[chosen]


def check_profile(name: str, profiles: Profiles) -> None:
    """Raises UserError if there is no such profile."""
    if name not in profiles.options:
        hint = did_you_mean(name, profiles.options)
        raise UserError(
            f"there is no profile {name}; {hint or '`lacuna profile list` lists the profiles'}"
        )


def profile_of(context: click.Context, option: click.Option) -> str:
    """Return the name of the profile that supplied the option's value, or "" if none did."""
    if context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT_MAP:
        return ""
    file, key = file_of(context), key_of(option, context)
    is_of_file = file is not None and key in file.values
    return "" if is_of_file else str(context.meta.get(_PROFILE, ""))


def take_file(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Reads the file named with --config, for the command that follows."""
    if path is not None:
        context.meta[_FILE] = read_file(path)


def file_of(context: click.Context) -> ConfigFile | None:
    file = context.meta.get(_FILE)
    return file if isinstance(file, ConfigFile) else None


def variable_of(option: click.Option, context: click.Context) -> str:
    """Return the option's environment variable, or "" if it has none."""
    if option.envvar:
        return str(option.envvar)
    if not (option.allow_from_autoenv and context.auto_envvar_prefix):
        return ""
    return f"{context.auto_envvar_prefix}_{(option.name or '').upper()}"


def key_of(option: click.Option, context: click.Context) -> str:
    """Return the option's key in config files, or "" if it has none."""
    if option.envvar:
        return str(option.envvar).removeprefix(_PREFIX).lower().replace("_", ".")
    if not variable_of(option, context):
        return ""
    name = max(option.opts, key=len).removeprefix("--")
    return ".".join([*context.command_path.split()[1:], name])


def keys_of(context: click.Context) -> dict[str, click.Option]:
    """Return the command's options that have a key, by key."""
    options = (each for each in context.command.params if isinstance(each, click.Option))
    return {key: option for option in options if (key := key_of(option, context))}


def use_file(context: click.Context) -> None:
    """Makes the values from the profile and the config file the defaults of a command's options.

    Raises UserError if the file contains a key that no command has.
    """
    file, of_profile = file_of(context), context.meta.get(_OF_PROFILE, {})
    if file is None and not of_profile:
        return
    own = keys_of(context)
    defaults = {own[key].name or "": value for key, value in of_profile.items() if key in own}
    if file is not None:
        defaults |= _of_file(context, file, own)
    context.default_map = defaults


def _of_file(
    context: click.Context, file: ConfigFile, own: Mapping[str, click.Option]
) -> dict[str, object]:
    """Return the file's values for a command's options, by option name. Raises UserError."""
    if not own.keys() >= file.values.keys() and (vocabulary := _vocabulary_of(context)):
        _check(file, vocabulary)
    return {
        option.name or "": _given(file, key, option)
        for key, option in own.items()
        if key in file.values
    }


def read_file(path: Path) -> ConfigFile:
    """Reads a config file. Raises UserError if it is unreadable or not valid TOML."""
    try:
        return ConfigFile(path, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"the config file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"the config file {path} is not TOML: {error}") from error


def check_variables(context: click.Context, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable with Lacuna's prefix that no command reads, since it may be misspelled.

    Variables that Kubernetes sets for services cause no warning.
    """
    own = {variable_of(option, context) for option in keys_of(context).values()}
    given = {
        name
        for name in environment
        if name.startswith(_PREFIX) and not _OF_KUBERNETES.search(name) and name not in _INTERNAL
    }
    if not given - own - _SHARED:
        return
    vocabulary = _vocabulary_of(context)
    if vocabulary is None or not given - own - _SHARED - vocabulary.variables():
        return
    known = vocabulary.all_variables()
    for name in sorted(given - known):
        hint = (
            did_you_mean(name, known) or "`lacuna config COMMAND` lists the variables of a command"
        )
        yield f"ignoring the variable {name}, which no command reads: {hint}"


def unknown(key: str, known: Iterable[str]) -> str:
    """Return the error message for a key that is not in `known`."""
    hint = did_you_mean(key, known) or "`lacuna config COMMAND` lists the settings of a command"
    return f"the setting {key} does not exist: {hint}"


def is_setting(key: str, context: click.Context) -> bool:
    """Whether any command has a setting with this key."""
    vocabulary = _vocabulary_of(context)
    return vocabulary is not None and key in vocabulary.ROWS


def _vocabulary_of(context: click.Context) -> Vocabulary | None:
    """Return the keys and variables of all commands, or None if the command was called without the root command."""
    load: Callable[[], Vocabulary] | None = context.find_root().obj
    return None if load is None else load()


def _check(file: ConfigFile, vocabulary: Vocabulary) -> None:
    known = vocabulary.all_keys()
    for key in file.values:
        if key not in known:
            raise UserError(f"{file.path}: {unknown(key, known)}")


def _given(file: ConfigFile, key: str, option: click.Option) -> object:
    value = file.values[key]
    if option.multiple:
        return value if isinstance(value, list) else [value]
    if isinstance(value, list):
        raise UserError(f"{file.path}: {key} is a list: specify a single value")
    return value


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
