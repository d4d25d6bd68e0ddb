"""The options for the keys with which the objects of a store are encrypted."""

import os
from pathlib import Path

import click

from lacuna.cli.errors import fail
from lacuna.cli.options import is_typed
from lacuna.logstore.objects.cluster_keys import COMMAND_VARIABLE
from lacuna.logstore.objects.kind import KEYS_OPTION
from lacuna.logstore.objects.url import has_keys, keys_option, with_options


def with_given_keys(
    context: click.Context, url: str, keys: Path | None, command: str | None
) -> str:
    """The URL of a store with the keys of --encryption-keys or --encryption-key-command.

    The command is put into the environment, where it is looked for. Keys that the URL names take precedence over
    variables and the config file. Raises UserError, StoreMisconfiguredError.
    """
    if keys and command:
        fail(
            "--encryption-keys and --encryption-key-command are two places for the same keys: leave one of them out"
        )
    if command:
        os.environ[COMMAND_VARIABLE] = command
    typed = [is_typed(context, name) for name in ("encryption_keys", "encryption_key_command")]
    if has_keys(url) and not any(typed):
        return url
    return with_options(url, **{KEYS_OPTION: keys_option(str(keys or ""), command or "")})
