"""The Kafka APIs and their registry. Each file defines one API or a family of APIs; see lacuna/agent/api.py."""

import pkgutil
from functools import cache
from importlib import import_module

from lacuna.agent.registry import Registry


@cache
def discover() -> Registry:
    """Return a registry of the APIs in this folder. Each module defines one as `API` or several as `APIS`."""
    names = sorted(module_info.name for module_info in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return Registry(
        api
        for module in modules
        for api in (module.APIS if hasattr(module, "APIS") else (module.API,))
    )
