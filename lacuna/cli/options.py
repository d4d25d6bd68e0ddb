"""Options that several commands share."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from lacuna.base.client_security import PLAINTEXT, read_client_properties
from lacuna.base.errors import UserError
from lacuna.base.setting import settings_of
from lacuna.cli.command_line import SETTINGS, option
from lacuna.cli.command_line import TEXT as ANY_TEXT
from lacuna.cli.config_file import profile_of
from lacuna.cli.configuration import is_typed
from lacuna.controlplane.client import ControlPlace, ControlTlsSettings, control_tls_settings
from lacuna.logstore.objects.url import SHARED_FORMS
from lacuna.operating.kafka import Agents
from lacuna.operating.srv import resolved

#: Option → the options that replace it when they are typed. Its variable and its value in the config file are then
#: ignored.
_INSTEAD = {
    "control": ("data", "bootstrap"),
    "data": ("control", "store", "bootstrap"),
    "store": ("data", "bootstrap"),
}


def folder(text: str) -> Path:
    """Parse the path of a folder. Raises BadParameter for empty text, which would mean the current folder."""
    if not text:
        raise click.BadParameter("it is empty; use . for the current folder")
    return Path(text)


def _typed_first(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Ignore a value from the environment or the config file if the user typed an option that replaces it."""
    name = parameter.name or ""
    is_overruled = any(is_typed(context, other) for other in _INSTEAD[name])
    return None if is_overruled and not is_typed(context, name) else value


_COMMAND_CONFIG = option(
    "--command-config",
    envvar="LACUNA_COMMAND_CONFIG",
    parser=Path,
    metavar="FILE",
    help="File with TLS and SASL settings for connections to agents, in the format of Kafka's client.properties.",
)


def agents_from(settings: str) -> Callable[..., Agents | None]:
    """Return the callback for an option that takes agents' addresses. It resolves SRV names.

    Connections to those agents use the file that the option `settings` specifies.
    """
    key = settings.removeprefix("--").replace("-", "_")

    def agents(context: click.Context, _: click.Parameter, value: str | None) -> Agents | None:
        if value is None:
            return None
        file = context.meta.get(key)
        security = PLAINTEXT if file is None else read_client_properties(file)
        return Agents(resolved(value), security, settings)

    return agents


Bootstrap = Annotated[
    Agents,
    option(
        "--bootstrap",
        "-b",
        envvar="LACUNA_BOOTSTRAP",
        parser=ANY_TEXT,
        callback=agents_from("--command-config"),
        beside=(_COMMAND_CONFIG,),
        help="Address of any agent, HOST or HOST:PORT. Several addresses, separated by commas, are tried one "
        "after another. An SRV name, such as _kafka._tcp.example.com, stands for the addresses that it lists.",
    ),
]
OptionalBootstrap = Annotated[
    Agents | None,
    option(
        "--bootstrap",
        "-b",
        parser=ANY_TEXT,
        callback=agents_from("--command-config"),
        beside=(_COMMAND_CONFIG,),
        help="Address of a running cluster, HOST:PORT. Without this option, the demo starts a temporary cluster.",
    ),
]
DEFAULT_BOOTSTRAP = Agents("127.0.0.1:9092")

_TLS = "TLS to the control plane"
_CONTROL_ROWS = [row for row in settings_of(ControlTlsSettings).values() if row.option]


def _to_place(context: click.Context, parameter: click.Parameter, value: str) -> Any:
    address = _typed_first(context, parameter, value)
    if address is None:
        return None
    return control_place(context, address)


def control_place(context: click.Context, address: str) -> ControlPlace:
    """Return a control plane's place, with the TLS files from the options and the environment."""
    given = {
        row.key: context.meta.get(row.option.removeprefix("--").replace("-", "_"))
        for row in _CONTROL_ROWS
    }
    return ControlPlace(address, control_tls_settings(given, os.environ))


_BESIDE_CONTROL = tuple(
    option(row.option, envvar=row.variable, metavar="FILE", help=row.documentation, panel=_TLS)
    for row in _CONTROL_ROWS
)
Control = Annotated[
    ControlPlace | None,
    option(
        "--control",
        envvar="LACUNA_CONTROL",
        parser=ANY_TEXT,
        callback=_to_place,
        beside=_BESIDE_CONTROL,
        help="Address of the control plane, HOST:PORT or unix:PATH; the command queries the "
        "control plane instead of the agents.",
    ),
]
OneControl = Annotated[
    ControlPlace,
    option(
        "--control",
        envvar="LACUNA_CONTROL",
        parser=ANY_TEXT,
        callback=_to_place,
        beside=_BESIDE_CONTROL,
        help="HOST:PORT of the control plane.",
    ),
]
DEFAULT_CONTROL = ControlPlace("127.0.0.1:7070")
Data = Annotated[
    Path | None,
    option(
        "--data",
        "-d",
        envvar="LACUNA_DATA",
        parser=folder,
        metavar="PATH",
        callback=_typed_first,
        help="Data folder of a running `lacuna up`; the command queries its control plane instead of the agents.",
    ),
]
Store = Annotated[
    str | None,
    option(
        "--store",
        envvar="LACUNA_STORE",
        callback=_typed_first,
        help=f"The URL of the cluster's object store: {SHARED_FORMS}.",
    ),
]
JobKeys = Annotated[
    Path | None,
    option(
        "--encryption-keys",
        parser=folder,
        metavar="PATH",
        help="File with the cluster's keys, if its objects are encrypted. The file must be on each "
        "machine that runs Spark. Default: the file that the data folder or LACUNA_ENCRYPTION_KEYS "
        "specifies, or the output of the command in LACUNA_ENCRYPTION_KEY_COMMAND.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPlace:
    """The options that name the cluster to query: its agents, or its control plane directly."""

    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    control: Control = None
    data: Data = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace(AskedPlace):
    """The options for a job's cluster. If they omit the control plane or the store, the agents are asked for it."""

    store: Store = None
    encryption_keys: JobKeys = None


Yes = Annotated[bool, option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(question: str, is_confirmed: bool) -> None:
    """Asks the user for confirmation, unless `is_confirmed`. Raises Abort if the user declines, and UserError without a
    terminal.

    Do not call it inside an event loop, where the first Ctrl-C would cancel a task while the prompt keeps waiting.
    """
    if is_confirmed:
        return
    context = click.get_current_context()
    addresses = (each for each in context.command.params if each.name == "bootstrap")
    profile = next(
        (profile_of(context, each) for each in addresses if isinstance(each, click.Option)), ""
    )
    asked = f"[{profile}] {question}" if profile else question
    if not sys.stdin.isatty():
        raise UserError(f"{asked} Add --yes to confirm")
    click.confirm(asked, abort=True)


AcceptLoss = Annotated[
    bool,
    option(
        "--accept-loss",
        help="Use this option if a start failed because the journal is damaged or older than the records. The "
        "command then reports what is lost, and continues without it. Do not use it in a startup script.",
    ),
]
Verbose = Annotated[bool, option("--verbose", "-v", help="Log events, one line each.")]
PrintConfig = Annotated[
    bool,
    option(
        "--print-config",
        has_variable=False,
        help="Print the settings and their sources, then exit.",
        panel=SETTINGS,
    ),
]
