"""The settings of a command, the source of each value, and the settings objects made from them.

The sources, in order of precedence, are the option, `--set`, the environment variable, the config file, and the
default.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from lacuna.base.errors import UserError
from lacuna.base.setting import Setting, SettingsError, Value, as_text, settings_of
from lacuna.cli.config_file import file_of, is_setting, keys_of, profile_of, unknown, variable_of

Settings = TypeVar("Settings")

_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Chosen:
    value: Value
    source: str

    @property
    def is_default(self) -> bool:
        return self.source == _DEFAULT

    @property
    def is_typed(self) -> bool:
        """Whether the value came from the command line."""
        return self.source.startswith("--")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The values of a command's settings, by key."""

    chosen: Mapping[str, Chosen]

    def make(self, kind: type[Settings], **fixed: Any) -> Settings:
        """Makes a settings object. Raises UserError if values conflict."""
        rows = settings_of(kind).items()
        try:
            return kind(**{name: self.chosen[row.key].value for name, row in rows}, **fixed)
        except SettingsError as error:
            raise UserError(str(error)) from error

    def replaced(self, values: Mapping[str, Value], source: str) -> "Configuration":
        """Return a copy with other `values`, by setting key, which come from `source`."""
        others = {key: Chosen(value, source) for key, value in values.items()}
        return replace(self, chosen={**self.chosen, **others})

    def arguments(self, *kinds: type[Any]) -> list[str]:
        """Return arguments that start a process with the same values of these settings classes."""
        rows = (row for kind in kinds for row in settings_of(kind).values())
        return [
            f"--set={row.key}={as_text(chosen.value)}"
            for row in rows
            if not (chosen := self.chosen[row.key]).is_default
        ]


def configure(
    context: click.Context,
    rows: Mapping[str, Setting],
    assignments: Sequence[str],
    typed: Mapping[str, Any],
) -> Configuration:
    """Chooses the value of each row. `typed` contains the options' values by key, or None for options not typed.

    Raises UserError for an invalid value, or if an assignment's key has no row.
    """
    file = file_of(context)
    assigned = dict(_assigned(each, rows, context) for each in assignments)
    chosen = {}
    for key, row in rows.items():
        sources: list[tuple[str, object]] = [
            (row.option, _typed(row, typed.get(key))),
            ("--set", assigned.get(key)),
        ]
        if not any(is_typed(context, each) for each in row.yields_to):
            sources.append((row.variable, os.environ.get(row.variable) or None))
            sources.append((str(file.path), file.values.get(key)) if file else ("", None))
        source, value = next(
            ((source, value) for source, value in sources if value is not None),
            (_DEFAULT, row.default),
        )
        chosen[key] = Chosen(_parsed(row, source, value), source)
    return Configuration(chosen)


def is_typed(context: click.Context, name: str) -> bool:
    """Whether a parameter's value came from the command line, not from a default or an environment variable."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _typed(row: Setting, value: Any) -> Value | None:
    if value is True and row.flag is not None:
        return row.flag
    return None if value is None else value


def _parsed(row: Setting, source: str, value: object) -> Value:
    try:
        return row.parse(value)
    except SettingsError as error:
        raise UserError(f"{source}: {error}") from error


def _assigned(text: str, rows: Mapping[str, Setting], context: click.Context) -> tuple[str, str]:
    key, is_assignment, value = text.partition("=")
    if not is_assignment:
        raise UserError(f"--set {text}: use KEY=VALUE")
    if key not in rows and is_setting(key, context):
        raise UserError(f"--set {key}: `{context.command_path}` does not have this setting")
    if key not in rows:
        raise UserError(f"--set: {unknown(key, rows)}")
    return key, value


def print_configuration(configuration: Configuration) -> None:
    """Prints the command's options and settings in the form of a config file, with comments that name their sources."""
    context = click.get_current_context()
    for key, option in keys_of(context).items():
        value = context.params.get(option.name or "")
        if value not in (None, ""):
            text = str(value) if isinstance(value, Path) else value
            click.echo(f"{key} = {_as_toml(text)}  # {source_of(option, context)}")
    for key, chosen in configuration.chosen.items():
        click.echo(f"{key} = {_as_toml(chosen.value)}  # {chosen.source}")


def source_of(option: click.Option, context: click.Context) -> str:
    """Return the source of an option's value: the option itself, its variable, the config file, or the default."""
    source = context.get_parameter_source(option.name or "")
    if source is ParameterSource.COMMANDLINE:
        return option.opts[0]
    if source is ParameterSource.ENVIRONMENT:
        return variable_of(option, context)
    if profile := profile_of(context, option):
        return f"profile {profile}"
    file = file_of(context)
    if source is ParameterSource.DEFAULT_MAP and file is not None:
        return str(file.path)
    return _DEFAULT


def _as_toml(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
