"""The settings of a command that keeps running: what was given, from where, and the settings of its parts.

An option takes precedence over `--set`, then come environment variables, the config file, and the default. Options that
say where things are (--bucket, --listen) have keys too; click reads them, from the same sources in the same order
(config_file.py).
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
from lacuna.cli.config_file import file_of, keys_of, unknown, variable_of
from lacuna.cli.tables import TABLES
from lacuna.cli.vocabulary import keyed_options
from lacuna.controlplane.client import ControlTlsSettings
from lacuna.controlplane.runtime import RuntimeSettings
from lacuna.controlplane.service import ServiceSettings
from lacuna.controlplane.shared.authorizing import AuthorizerSettings
from lacuna.logstore.objects import kind_of

Settings = TypeVar("Settings")

PAID_FLUSH_INTERVAL_MS: Final = 250
_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The value of a setting, and the source that it came from."""

    value: Value
    source: str

    @property
    def is_default(self) -> bool:
        return self.source == _DEFAULT


@dataclass(frozen=True, slots=True)
class Configuration:
    """What was chosen for each setting of a command, by key."""

    chosen: Mapping[str, Chosen]

    def make(self, kind: type[Settings], **fixed: Any) -> Settings:
        """Makes settings of a part. Raises UserError for values that do not fit together."""
        rows = settings_of(kind).items()
        try:
            return kind(**{name: self.chosen[row.key].value for name, row in rows}, **fixed)
        except SettingsError as error:
            raise UserError(str(error)) from error

    def on(self, store_url: str) -> "Configuration":
        """The same with the defaults for a store: where each PUT costs money, a flush waits for records."""
        key = "produce.flush.interval.ms"
        if kind_of(store_url).prices is None or not self.chosen[key].is_default:
            return self
        return replace(self, chosen={**self.chosen, key: Chosen(PAID_FLUSH_INTERVAL_MS, _DEFAULT)})

    def service(self) -> ServiceSettings:
        """The settings of the control plane's service; those of the state machine are made separately."""
        return ServiceSettings(
            runtime=self.make(RuntimeSettings),
            tls=self.make(ControlTlsSettings),
            authorizer=self.make(AuthorizerSettings),
        )

    def arguments(self, command: str) -> list[str]:
        """What was chosen, as arguments for a process that runs `command`."""
        return [
            f"--set={key}={as_text(self.chosen[key].value)}"
            for key in TABLES[command]
            if not self.chosen[key].is_default
        ]


def configure(
    context: click.Context,
    assignments: Sequence[str] | None,
    given: Mapping[str, Value | None],
) -> Configuration:
    """Chooses a value for each setting of the command; `given` are those of options, None if not typed.

    Raises UserError for values that are not allowed, and for assignments of what is no setting.
    """
    table = TABLES[context.command.name or ""]
    file = file_of(context)
    assigned = dict(_assigned(each, table, context) for each in assignments or ())
    chosen = {}
    for key, row in table.items():
        sources: list[tuple[str, object]] = [
            (row.option, given.get(key)),
            ("--set", assigned.get(key)),
            (row.variable, os.environ.get(row.variable) or None),
            (str(file.path), file.values.get(key)) if file else ("", None),
        ]
        source, value = next(
            ((source, value) for source, value in sources if value is not None),
            (_DEFAULT, row.default),
        )
        chosen[key] = Chosen(_parsed(row, source, value), source)
    return Configuration(chosen)


def _parsed(row: Setting, source: str, value: object) -> Value:
    try:
        return row.parse(value)
    except SettingsError as error:
        raise UserError(f"{source}: {error}") from error


def _assigned(text: str, table: Mapping[str, Setting], context: click.Context) -> tuple[str, str]:
    key, is_assignment, value = text.partition("=")
    if not is_assignment:
        raise UserError(f"--set {text}: write KEY=VALUE")
    for option in keyed_options():
        if key == option.key:
            raise UserError(f"--set {key}: use {option.opts[0]}")
    if key in TABLES["up"] and key not in table:
        raise UserError(f"--set {key}: `{context.command_path}` does not have this setting")
    if key not in table:
        raise UserError(f"--set: {unknown(key, table)}")
    return key, value


def print_configuration(context: click.Context, configuration: Configuration) -> None:
    """Prints all that a command would use as a config file, with the source of each value."""
    for key, option in keys_of(context).items():
        value = context.params.get(option.name or "")
        if value not in (None, ""):
            text = str(value) if isinstance(value, Path) else value
            click.echo(f"{key} = {_as_toml(text)}  # {source_of(option, context)}")
    for key, chosen in configuration.chosen.items():
        click.echo(f"{key} = {_as_toml(chosen.value)}  # {chosen.source}")


def source_of(option: click.Option, context: click.Context) -> str:
    """Where the value of an option comes from: the option itself, its variable, the config file, or the default."""
    source = context.get_parameter_source(option.name or "")
    if source is ParameterSource.COMMANDLINE:
        return option.opts[0]
    if source is ParameterSource.ENVIRONMENT:
        return variable_of(option, context)
    file = file_of(context)
    if source is ParameterSource.DEFAULT_MAP and file is not None:
        return str(file.path)
    return _DEFAULT


def _as_toml(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
