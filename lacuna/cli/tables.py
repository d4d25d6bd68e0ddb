"""The settings of all servers, and the keys and variables of all commands.

`base/setting.py` defines settings rows. The functions `all_…` import every command.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.setting import Setting, settings_of
from lacuna.cli.config_file import keys_of, variable_of
from lacuna.cli.configuration import Configuration
from lacuna.cli.entries import CONTEXT, ENTRIES
from lacuna.cli.places import PLACES
from lacuna.controlplane.client import ControlTlsSettings
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.service import ServiceSettings
from lacuna.controlplane.shared.authorizing import AuthorizerSettings
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings

AGENT: Final = (
    AgentSettings,
    SecuritySettings,
    FetchSettings,
    ProduceSettings,
    HousekeepingSettings,
    MergeSettings,
    ControlTlsSettings,
)
CONTROL_PLANE: Final = (
    GroupSettings,
    ProducerSettings,
    RuntimeSettings,
    ControlTlsSettings,
    AuthorizerSettings,
)


def rows_of(kinds: Iterable[type[Any]]) -> Mapping[str, Setting]:
    """Return the rows of some settings classes, by key."""
    return {row.key: row for kind in kinds for row in settings_of(kind).values()}


def service_settings(configuration: Configuration) -> ServiceSettings:
    """Return the settings of the control plane's service; those of the state machine are made separately."""
    return ServiceSettings(
        runtime=configuration.make(RuntimeSettings),
        tls=configuration.make(ControlTlsSettings),
        authorizer=configuration.make(AuthorizerSettings),
    )


#: Every setting of every command, by key.
ROWS: Final = rows_of((*PLACES, *AGENT, *CONTROL_PLANE))


def all_keys() -> set[str]:
    """Return the keys of all settings and of all commands' options."""
    return {*ROWS, *(key for each in contexts() for key in keys_of(each))}


def all_variables() -> set[str]:
    """Return the environment variables of all settings and of all commands' options."""
    return variables() | {
        variable_of(option, context)
        for context in contexts()
        for option in keys_of(context).values()
    }


def contexts() -> Iterator[click.Context]:
    """Yield a context for each command."""
    root = click.Context(click.Group("lacuna"), info_name="lacuna", **CONTEXT)
    yield from _contexts_below({name: each.load(name) for name, each in ENTRIES.items()}, root)


def _contexts_below(
    commands: Mapping[str, click.Command], context: click.Context
) -> Iterator[click.Context]:
    for name, command in commands.items():
        below = click.Context(command, parent=context, info_name=name)
        yield below
        if isinstance(command, click.Group):
            yield from _contexts_below(command.commands, below)


def variables() -> set[str]:
    """Return the environment variables of all settings, and that of the config file."""
    return {*(row.variable for row in ROWS.values()), "LACUNA_CONFIG"}
