"""The keys with which the objects of a store are encrypted."""

import os

from lacuna.cli.configuration import Configuration
from lacuna.cli.errors import fail
from lacuna.cli.places import Encryption
from lacuna.logstore.objects.cluster_keys import COMMAND_VARIABLE
from lacuna.logstore.objects.kind import KEYS_OPTION
from lacuna.logstore.objects.url import has_keys, keys_option, with_options


def with_given_keys(configuration: Configuration, url: str) -> str:
    """Return the URL of a store with the keys that --encryption-keys or --encryption-key-command name.

    Puts the command into the environment, where stores read it. Keys that the URL names take precedence over
    variables and the config file. Raises UserError, StoreMisconfiguredError.
    """
    given = configuration.make(Encryption)
    if given.keys and given.command:
        fail(
            "--encryption-keys and --encryption-key-command both name the keys: leave one of them out"
        )
    if given.command:
        os.environ[COMMAND_VARIABLE] = given.command
    keys = ("encryption.keys", "encryption.key.command")
    if has_keys(url) and not any(configuration.chosen[key].is_typed for key in keys):
        return url
    return with_options(url, **{KEYS_OPTION: keys_option(given.keys, given.command)})
