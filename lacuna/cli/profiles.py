"""`lacuna profile`: names for clusters, which save typing addresses and security settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from lacuna.cli.command_line import Group, argument, option
from lacuna.cli.config_file import check_profile, profiles_path, read_profiles
from lacuna.cli.console import print_line, table
from lacuna.cli.errors import fail

app = Group(help="Lists, sets and chooses profiles: names for clusters.")

Name = Annotated[str, argument(help="Name of the profile.")]


@app.adds("list", shows=True)
def list_profiles() -> None:
    """Lists the profiles, and marks the current one."""
    profiles = read_profiles(profiles_path())
    table(
        ("profile", "current", "bootstrap", "command config"),
        (
            (name, name == profiles.current, given.get("bootstrap"), given.get("command.config"))
            for name, given in sorted(profiles.options.items())
        ),
    )


@app.adds("set")
def set_profile(
    name: Name,
    address: Annotated[
        str,
        option(
            "--bootstrap",
            "-b",
            has_variable=False,
            help="Address of any agent, HOST or HOST:PORT. Separate multiple addresses with commas.",
        ),
    ],
    security: Annotated[
        Path | None,
        option(
            "--command-config",
            has_variable=False,
            metavar="FILE",
            help="File with TLS and SASL settings, in the format of Kafka's client.properties.",
        ),
    ] = None,
) -> None:
    """Sets a profile's address and security settings, and creates the profile if it does not exist."""
    if name == "current" or not name:
        fail(f"{name or 'an empty name'} cannot be the name of a profile: choose another")
    profiles = read_profiles(profiles_path())
    given = {"bootstrap": address}
    if security is not None:
        given["command.config"] = str(security.absolute())
    _write(profiles.current, {**profiles.options, name: given})
    print_line(f"set {name}: {address}; `lacuna profile use {name}` makes it the current one")


@app.adds("use")
def use_profile(
    name: Annotated[
        str, argument(help="Name of the profile. Without a name, no profile is current.")
    ] = "",
) -> None:
    """Makes a profile the current one.

    Commands use the profile's address and security settings, unless an option, a variable or a config file overrides
    them.
    """
    profiles = read_profiles(profiles_path())
    if name:
        check_profile(name, profiles)
    _write(name, profiles.options)
    print_line(f"using {name}" if name else "using no profile")


@app.adds("delete")
def delete_profile(name: Name) -> None:
    """Deletes a profile."""
    profiles = read_profiles(profiles_path())
    check_profile(name, profiles)
    left = {each: given for each, given in profiles.options.items() if each != name}
    _write("" if profiles.current == name else profiles.current, left)
    print_line(f"deleted {name}")


def _write(current: str, profiles: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the profiles file. JSON strings are valid in TOML."""
    lines = [f"current = {json.dumps(current)}"]
    for name, given in profiles.items():
        lines += ["", f"[{json.dumps(name)}]"]
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in given.items()]
    path = profiles_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n", encoding="utf-8")
    new.replace(path)
