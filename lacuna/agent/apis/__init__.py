"""The Kafka APIs, a file for each or for a family, and their registry. lacuna/agent/api.py describes a file."""

import pkgutil
from functools import cache
from importlib import import_module

from lacuna.agent.registry import Registry


@cache
def discover() -> Registry:
    """Return a registry of the `API`, or the `APIS` of a family, of every module in this folder."""
    names = sorted(module_info.name for module_info in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return Registry(
        api
        for module in modules
        for api in (module.APIS if hasattr(module, "APIS") else (module.API,))
    )
