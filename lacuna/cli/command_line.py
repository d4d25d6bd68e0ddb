"""Builds commands from functions, whose parameter annotations describe the command line.

A parameter is one of these:

- `Annotated[TYPE, option(…)]` or `argument(…)`: one option or argument.
- A dataclass: one option or argument per field, annotated in the same way. The function receives an instance.
- `Annotated[Configuration, takes(…)]`: an option for each row of some settings classes. The function receives their
  values.

This is a thin layer over click. typer does the same, but depends on pydantic: seven packages instead of one.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType, NoneType
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

from lacuna.base.setting import Setting, SettingsError, settings_of
from lacuna.cli.config_file import check_variables, key_of, use_file
from lacuna.cli.configuration import Configuration, configure
from lacuna.cli.output import output_options

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_ROWS: Final[Mapping[str, Setting]] = MappingProxyType({})

#: The heading of the options that set or print settings.
SETTINGS: Final = "Settings"


class Settings(TypedDict, total=False):
    help: str
    min: float
    max: float
    envvar: str
    has_variable: bool
    metavar: str
    panel: str
    #: The option's value if the option is typed without a value.
    alone: str
    parser: Callable[[str], Any]
    callback: Callable[[click.Context, click.Parameter, Any], Any]
    #: Options that accompany this one in every command. Their values are in the context's `meta`, keyed by name.
    beside: "tuple[Described, ...]"


@dataclass(frozen=True, slots=True)
class Rows:
    """The settings rows of a command, by key. The keys in `quiet` have no options and can only be set with `--set`."""

    rows: Mapping[str, Setting]
    quiet: frozenset[str]


@dataclass(frozen=True, slots=True)
class Described:
    names: tuple[str, ...]
    settings: Settings
    is_argument: bool


def option(*names: str, **settings: Unpack[Settings]) -> Described:
    """Describes an option in `Annotated`. Without `names`, the option is named after the parameter."""
    return Described(names, settings, is_argument=False)


def argument(**settings: Unpack[Settings]) -> Described:
    """Describes an argument in `Annotated`. The argument is named after the parameter."""
    return Described((), settings, is_argument=True)


def takes(*kinds: type[Any], quiet: tuple[type[Any], ...] = ()) -> Rows:
    """Describes, in `Annotated`, the settings classes whose rows are options of a command.

    The rows of `quiet` classes have no options and can only be set with `--set`.
    """
    rows = {row.key: row for kind in (*kinds, *quiet) for row in settings_of(kind).values()}
    return Rows(rows, frozenset(row.key for kind in quiet for row in settings_of(kind).values()))


class Option(click.Option):
    """An option that the help page lists under the heading `panel`."""

    def __init__(self, names: list[str], panel: str = "Options", **attributes: Any) -> None:
        super().__init__(names, **attributes)
        self.panel = panel

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name the source of an invalid value: the config file's key or, as in click, the option."""
        source = ctx.get_parameter_source(self.name or "") if ctx is not None else None
        if ctx is not None and source is ParameterSource.DEFAULT_MAP:
            return f"{key_of(self, ctx)!r} in the config file"
        return super().get_error_hint(ctx)


class RowOption(Option):
    """The option for a settings row. If it is not typed, `configure` takes the value from another source."""

    def __init__(self, row: Setting) -> None:
        names = [row.option, row.short] if row.short else [row.option]
        is_flag = row.flag is not None or isinstance(row.default, bool)
        super().__init__(
            names,
            row.panel or "Options",
            help=row.help or row.documentation,
            is_flag=is_flag,
            type=click.BOOL if is_flag else _OfRow(row),
            metavar=row.metavar or None,
            default=None,
            allow_from_autoenv=False,
        )
        self.row = row

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:  # noqa: ARG002 - click's
        """Return the row's environment variable, default and bounds."""
        row = self.row
        extra: click.types.OptionHelpExtra = {"envvars": (row.variable,)}
        if not self.is_flag and row.default != "":
            extra["default"] = row.shown_default
        if bounds := row.bounds:
            extra["range"] = bounds
        return extra


class Argument(click.Argument):
    """An argument with help text, which click's arguments lack."""

    panel = "Arguments"

    def __init__(self, names: list[str], line: str, **attributes: Any) -> None:
        super().__init__(names, **attributes)
        self.help = line


class _Explained(click.Command):
    """A command or group with Lacuna's help page and the settings `rows`."""

    rows: Mapping[str, Setting] = _NO_ROWS

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        from lacuna.cli.help_page import print_help

        print_help(self, ctx)


class Command(_Explained):
    """A command whose options may take values from the config file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Fill in missing values from the config file, and warn about unknown environment variables."""
        use_file(ctx)
        if not ctx.resilient_parsing:
            for line in check_variables(ctx, os.environ):
                click.echo(f"lacuna: {line}", err=True)
        return super().parse_args(ctx, args)


class Group(_Explained, click.Group):
    """A group of commands, to which the decorator `adds` adds functions."""

    def __init__(self, name: str | None = None, **attributes: Any) -> None:
        is_command = attributes.get("invoke_without_command", False)
        super().__init__(name, no_args_is_help=not is_command, **attributes)

    def adds(self, name: str, *, shows: bool = False) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as the command `name`. See `make_command` for `shows`."""

        def add(function: Function) -> Function:
            self.add_command(make_command(name, function, shows=shows))
            return function

        return add

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        use_file(ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the commands' names in the order in which they were added."""
        return list(self.commands)


def make_command(name: str, function: Callable[..., Any], *, shows: bool = False) -> Command:
    """Makes a command that calls `function`, with the function's docstring as its help.

    With `shows`, the command prints tables and has options for their format, which `lacuna.cli.console` reads.
    """
    inputs = [*_inputs(function)]
    parameters = [parameter for each in inputs for parameter in each.parameters]
    if shows:
        parameters += [Option(**each) for each in output_options()]

    def call(**values: Any) -> Any:
        context = click.get_current_context()
        with _tables_printed() if shows else nullcontext():
            return function(**{each.name: each.take(context, values) for each in inputs})

    command = Command(name, params=parameters, callback=call, help=inspect.getdoc(function))
    command.rows = {key: row for each in inputs for key, row in each.rows.items()}
    return command


@contextmanager
def _tables_printed() -> Iterator[None]:
    """If the user chose JSON, print the tables once the command has ended without an error."""
    from lacuna.cli.console import print_collected

    try:
        yield
    except click.exceptions.Exit:
        print_collected()
        raise
    print_collected()


def make_group(function: Callable[..., Any]) -> Group:
    """Makes a group that calls `function` if the user specifies no command."""
    command = make_command("", function)

    def call(**values: Any) -> Any:
        if click.get_current_context().invoked_subcommand is None:
            assert command.callback is not None
            return command.callback(**values)
        return None

    group = Group(
        params=command.params, callback=call, help=command.help, invoke_without_command=True
    )
    group.rows = command.rows
    return group


class _Integer(click.IntRange):
    """An IntRange that calls itself "integer" in errors, not "integer range"."""

    name = "integer"


class _Number(click.FloatRange):
    """A FloatRange that calls itself "number" in errors, not "float range"."""

    name = "number"


class _Text(click.types.StringParamType):
    """Text that must not be empty if typed: empty text usually comes from an unset variable in a script."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        if not text and ctx is not None and param is not None and _is_typed(ctx, param):
            can_be_left_out = isinstance(param, Option) and not param.required
            message = "it is empty: specify a value"
            self.fail(message + ", or omit the option" * can_be_left_out, param, ctx)
        return text


class _OfRow(_Text):
    """A value for a settings row: text, or a number, possibly with a unit."""

    def __init__(self, row: Setting) -> None:
        self.row = row
        kind = "size" if row.key.endswith(".bytes") else "integer"
        self.name = kind if isinstance(row.default, int) else "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.row.parse(super().convert(value, param, ctx))
        except SettingsError as error:
            self.fail(str(error), param, ctx)


def _is_typed(context: click.Context, parameter: click.Parameter) -> bool:
    return context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE


#: The type of an option's text, for options whose callback converts it.
TEXT: Final = _Text()
_TYPES: Final[dict[Any, Any]] = {Path: click.Path(path_type=Path), str: TEXT}
_NUMBERS: Final[dict[Any, Any]] = {int: _Integer, float: _Number}


@dataclass(frozen=True, slots=True)
class _Input:
    """A parameter of a command's function, with the options and arguments that supply its value."""

    name: str
    take: Callable[[click.Context, Mapping[str, Any]], Any]
    parameters: Sequence[click.Parameter] = ()
    rows: Mapping[str, Setting] = field(default_factory=dict)


def _inputs(function: Callable[..., Any]) -> Iterator[_Input]:
    hints = get_type_hints(function, include_extras=True)
    for each in inspect.signature(function).parameters.values():
        yield _input(each.name, hints[each.name], each.default)


def _input(name: str, hint: Any, default: Any) -> _Input:
    if hint is click.Context:
        return _Input(name, lambda context, _: context)
    if is_dataclass(hint):
        return _input_of_fields(name, hint)
    kind, described = _read(name, hint)
    if isinstance(described, Rows):
        return _input_of_rows(name, described)
    beside = (_make_beside(each) for each in described.settings.get("beside", ()))
    parameters = (_make_parameter(name, kind, described, default), *beside)
    return _Input(name, lambda _, values: values[name], parameters)


def _input_of_fields(name: str, kind: Any) -> _Input:
    hints = get_type_hints(kind, include_extras=True)
    inner = [
        _input(
            each.name,
            hints[each.name],
            inspect.Parameter.empty if each.default is MISSING else each.default,
        )
        for each in fields(kind)
    ]
    return _Input(
        name,
        lambda context, values: kind(**{each.name: each.take(context, values) for each in inner}),
        [parameter for each in inner for parameter in each.parameters],
        {key: row for each in inner for key, row in each.rows.items()},
    )


def _input_of_rows(name: str, described: Rows) -> _Input:
    options = [
        RowOption(row)
        for row in described.rows.values()
        if row.option and row.key not in described.quiet
    ]

    def take(context: click.Context, values: Mapping[str, Any]) -> Configuration:
        typed = {each.row.key: values[each.name or ""] for each in options}
        return configure(context, described.rows, values[_ASSIGNMENTS], typed)

    return _Input(name, take, [*options, _assignments()], described.rows)


_ASSIGNMENTS: Final = "assignments"


def _assignments() -> Option:
    return Option(
        [_ASSIGNMENTS, "--set"],
        SETTINGS,
        help="One setting, written as in the config file. May be repeated.",
        multiple=True,
        metavar="KEY=VALUE",
        allow_from_autoenv=False,
    )


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


def _make_parameter(name: str, kind: Any, described: Described, default: Any) -> click.Parameter:
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
    return Option(
        [name, *names],
        settings.get("panel", "Options"),
        help=settings["help"],
        multiple=is_list,
        **_flag(kind, settings),
        envvar=settings.get("envvar"),
        allow_from_autoenv=settings.get("has_variable", True),
        show_envvar=True,
        show_default=default != "",
        **attributes,
    )


def _flag(kind: Any, settings: Settings) -> dict[str, Any]:
    """Return the `Option` arguments for an option that may be typed without a value."""
    if "alone" in settings:
        return {"is_flag": False, "flag_value": settings["alone"]}
    return {"is_flag": True if kind is bool else None}


def _read(name: str, hint: Any) -> tuple[Any, Described | Rows]:
    """Return the parameter's type, without None, and its description."""
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
