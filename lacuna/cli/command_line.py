"""Makes commands from functions: the annotation of each parameter describes it on the command line.

A thin layer over click. typer does the same, but it brings pydantic: seven packages instead of one.
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

import click
from click.core import ParameterSource

from lacuna.cli.config_file import check_variables, key_of, use_file
from lacuna.cli.output import output_options

Function = TypeVar("Function", bound=Callable[..., Any])


class Settings(TypedDict, total=False):
    """The settings of an option or an argument."""

    help: str
    min: float
    max: float
    envvar: str
    key: str
    has_variable: bool
    metavar: str
    panel: str
    show_default: bool
    #: What the option means if it is typed without a value.
    alone: str
    parser: Callable[[str], Any]
    callback: Callable[[click.Context, click.Parameter, Any], Any]
    #: Options that every command with this one has, too. Their values are in the context's `meta`, by name.
    beside: "tuple[Described, ...]"


@dataclass(frozen=True, slots=True)
class Described:
    """How a parameter's annotation describes it."""

    names: tuple[str, ...]
    settings: Settings
    is_argument: bool


def option(*names: str, **settings: Unpack[Settings]) -> Described:
    """Describes an option, for use in `Annotated`. Without `names` it is named after the parameter."""
    return Described(names, settings, is_argument=False)


def argument(**settings: Unpack[Settings]) -> Described:
    """Describes an argument, for use in `Annotated`. It is named after the parameter."""
    return Described((), settings, is_argument=True)


class Option(click.Option):
    """An option that the help page shows in the panel `panel`; `key` is that of settings, if it is one of them."""

    def __init__(
        self, names: list[str], panel: str = "Options", key: str = "", **attributes: Any
    ) -> None:
        super().__init__(names, **attributes)
        self.panel = panel
        self.key = key

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Where the wrong value is from."""
        source = ctx.get_parameter_source(self.name or "") if ctx is not None else None
        if ctx is not None and source is ParameterSource.DEFAULT_MAP:
            return f"{key_of(self, ctx)!r} in the config file"
        return super().get_error_hint(ctx)


class Argument(click.Argument):
    """An argument with a line of help, which click's own class does not have."""

    panel = "Arguments"

    def __init__(self, names: list[str], line: str, **attributes: Any) -> None:
        super().__init__(names, **attributes)
        self.help = line


class Command(click.Command):
    """A command with our help page, whose options may have values from the config file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, with the config file for what is not in it. Says which variables are unknown."""
        use_file(ctx)
        if not ctx.resilient_parsing:
            for line in check_variables(ctx, os.environ):
                click.echo(f"lacuna: {line}", err=True)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        from lacuna.cli.help_page import print_help

        print_help(self, ctx)


class Group(click.Group):
    """A group of commands with our help page; its `adds` makes a function one of its commands."""

    def __init__(self, name: str | None = None, **attributes: Any) -> None:
        is_command = attributes.get("invoke_without_command", False)
        super().__init__(name, no_args_is_help=not is_command, **attributes)

    def adds(self, name: str, *, shows: bool = False) -> Callable[[Function], Function]:
        """A decorator that adds a function as the command `name`; the function itself is unchanged.

        `shows` is as in `make_command`.
        """

        def add(function: Function) -> Function:
            self.add_command(make_command(name, function, shows=shows))
            return function

        return add

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line as `Command` does. The root has the option that names the file."""
        use_file(ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """The names of the commands, in the order in which they were added."""
        return list(self.commands)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        from lacuna.cli.help_page import print_help

        print_help(self, ctx)


def make_command(name: str, function: Callable[..., Any], *, shows: bool = False) -> Command:
    """Makes a command that calls `function`. Its help is the function's docstring.

    If it `shows` tables, it has options for how they are printed, which `lacuna.cli.console` reads.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    contexts = [each.name for each in parameters if hints[each.name] is click.Context]
    made = [
        made
        for each in parameters
        if each.name not in contexts
        for made in _make_parameters(each.name, hints[each.name], each.default)
    ]
    if shows:
        made += [Option(**each) for each in output_options()]

    def call(**values: Any) -> Any:
        return function(**values, **dict.fromkeys(contexts, click.get_current_context()))

    return Command(name, params=made, callback=call, help=inspect.getdoc(function))


def make_group(function: Callable[..., Any]) -> Group:
    """Makes a group of commands that calls `function`, as `make_command` does, if none of them is named."""
    command = make_command("", function)

    def call(**values: Any) -> Any:
        if click.get_current_context().invoked_subcommand is None:
            assert command.callback is not None
            return command.callback(**values)
        return None

    return Group(
        params=command.params, callback=call, help=command.help, invoke_without_command=True
    )


class _Integer(click.IntRange):
    """click's IntRange, but its errors say "integer" instead of "integer range"."""

    name = "integer"


class _Number(click.FloatRange):
    """click's FloatRange, but its errors say "number" instead of "float range"."""

    name = "number"


class _Text(click.types.StringParamType):
    """Text that must not be empty when typed: an empty one usually comes from an unset variable in a script."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        if not text and ctx is not None and param is not None and _is_typed(ctx, param):
            can_be_left_out = isinstance(param, Option) and not param.required
            said = "it is empty: give a value"
            self.fail(said + ", or leave the option out" * can_be_left_out, param, ctx)
        return text


def _is_typed(context: click.Context, parameter: click.Parameter) -> bool:
    return context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE


#: The type of text, for options whose callback makes something else of it.
TEXT: Final = _Text()
_TYPES: Final[dict[Any, Any]] = {Path: click.Path(path_type=Path), str: TEXT}
_NUMBERS: Final[dict[Any, Any]] = {int: _Integer, float: _Number}


def _make_parameters(name: str, hint: Any, default: Any) -> list[click.Parameter]:
    """The parameter, and those that come with it."""
    described = _read(name, hint)[1]
    return [
        _make_parameter(name, hint, default),
        *(_make_beside(each) for each in described.settings.get("beside", ())),
    ]


def _make_beside(described: Described) -> click.Parameter:
    def store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        context.meta[parameter.name or ""] = value

    settings = described.settings
    return Option(
        list(described.names),
        settings.get("panel", "Options"),
        help=settings["help"],
        type=settings.get("parser") or TEXT,
        metavar=settings.get("metavar"),
        envvar=settings["envvar"],
        show_envvar=True,
        is_eager=True,
        expose_value=False,
        callback=store,
    )


def _make_parameter(name: str, hint: Any, default: Any) -> click.Parameter:
    kind, described = _read(name, hint)
    is_list = get_origin(kind) is list
    settings = described.settings
    callback = settings.get("callback")
    attributes: dict[str, Any] = {
        "type": settings.get("parser") or _type(get_args(kind)[0] if is_list else kind, settings),
        "metavar": settings.get("metavar"),
        "callback": _as_list if is_list else callback,
    }
    if default is inspect.Parameter.empty:
        attributes["required"] = True
    elif not is_list:
        attributes["default"] = default
    if described.is_argument:
        shown = {"nargs": -1} if is_list else {}
        return Argument([name], settings["help"], **attributes, **shown)
    names = described.names or (f"--{name.replace('_', '-')}",)
    key = settings.get("key", "")
    variable = f"LACUNA_{key.upper().replace('.', '_')}" if key else None
    return Option(
        [name, *names],
        settings.get("panel", "Options"),
        key,
        help=settings["help"],
        multiple=is_list,
        **_flag(kind, settings),
        envvar=settings.get("envvar", variable),
        allow_from_autoenv=settings.get("has_variable", True),
        show_envvar=True,
        show_default=settings.get("show_default", default != ""),
        **attributes,
    )


def _flag(kind: Any, settings: Settings) -> dict[str, Any]:
    """How an option may stand without a value, as arguments of `Option`."""
    if "alone" in settings:
        return {"is_flag": False, "flag_value": settings["alone"]}
    return {"is_flag": True if kind is bool else None}


def _read(name: str, hint: Any) -> tuple[Any, Described]:
    """The parameter's type without None, and its description."""
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{name} is not described: annotate it with option() or argument()")
    kind, described = get_args(hint)
    kinds = [each for each in get_args(kind) if each is not NoneType]
    is_optional = NoneType in get_args(kind)
    return (kinds[0] if is_optional else kind), described


def _type(kind: Any, settings: Settings) -> Any:
    if "min" in settings or "max" in settings:
        return _NUMBERS[kind](settings.get("min"), settings.get("max"))
    return _TYPES.get(kind, kind)


def _as_list(context: click.Context, parameter: click.Parameter, value: Any) -> list[Any] | None:  # noqa: ARG001
    return list(value) or None
