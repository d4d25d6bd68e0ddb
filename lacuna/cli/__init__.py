"""The `lacuna` command."""

from lacuna.cli.app import main

__all__ = ["main"]
