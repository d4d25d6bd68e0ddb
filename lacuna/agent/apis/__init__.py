"""The Kafka APIs, one file each, and their registry. lacuna/agent/api.py describes the contents of a file."""

import pkgutil
from functools import cache
from importlib import import_module

from lacuna.agent.registry import Registry


@cache
def discover() -> Registry:
    """Return a registry of the `API` of every module in this folder."""
    names = sorted(module_info.name for module_info in pkgutil.iter_modules(__path__))
    return Registry(import_module(f"{__name__}.{name}").API for name in names)
