"""Options of other tools, and the `lacuna` options that correspond to them."""

import re
from typing import Any, Final

_LISTEN: Final = "--listen HOST:PORT"
_CLUSTER: Final = ("--bootstrap HOST:PORT", _LISTEN)
_FOLDER: Final = ("--data PATH", "--objects PATH")

#: Of the options in a row, the hint names the first one that the command has.
_INSTEAD: Final[dict[str, tuple[str, ...]]] = {
    "--port": (_LISTEN, *_CLUSTER),
    "--host": (_LISTEN, *_CLUSTER),
    "--bind": (_LISTEN,),
    "--address": (_LISTEN, *_CLUSTER),
    "--bootstrap-server": _CLUSTER,
    "--bootstrap-servers": _CLUSTER,
    "--bootstrap": (_LISTEN,),
    "--broker": _CLUSTER,
    "--brokers": _CLUSTER,
    "--broker-list": _CLUSTER,
    "--server": _CLUSTER,
    "--controlplane": ("--control HOST:PORT",),
    "--control-plane": ("--control HOST:PORT",),
    "--data-dir": _FOLDER,
    "--dir": _FOLDER,
    "--folder": _FOLDER,
    "--path": _FOLDER,
    "--objects": ("--store file:///FOLDER", "--data PATH"),
    "--store": ("--bucket BUCKET/PREFIX",),
    "--bucket": ("--store s3://BUCKET/PREFIX",),
    "--s3": ("--bucket BUCKET/PREFIX", "--store s3://BUCKET/PREFIX"),
    "--url": ("--store URL",),
    "--endpoint-url": ("--endpoint URL", "--store s3://BUCKET/PREFIX?endpoint=URL"),
    "--endpoint": ("--store s3://BUCKET/PREFIX?endpoint=URL",),
    "--advertised-listeners": ("--advertise HOST:PORT",),
    "--rack": ("--zone NAME",),
    "--num-partitions": ("--partitions N",),
    "--processes": ("--workers N",),
    "--threads": ("--workers N",),
    "--debug": ("--verbose",),
    "--loglevel": ("--verbose",),
    "--log-level": ("--verbose",),
    "--out": ("--to PLACE", "--json FILE"),
    "--output": ("--to PLACE", "--json FILE"),
    "--output-dir": ("--to PLACE",),
    "--force": ("--yes",),
    "--offset": ("--from WHERE",),
    "--from-beginning": ("--from earliest",),
    "--max-messages": ("--count N",),
    "--isolation-level": ("--isolation LEVEL",),
    "--compression-codec": ("--compression CODEC",),
    "--spark-master": ("--master URL",),
}
_NAMES: Final = ("--topic", "--topics", "--group", "--transactional-id", "--name")


def hint_for(option: str, command: Any) -> str:
    """Suggest an option in place of one that `command` does not have. Return "" if there is no suggestion."""
    there = {name for parameter in command.params for name in parameter.opts}
    for text in _INSTEAD.get(option, ()):
        if text.split(" ", 1)[0] in there:
            return f"use {text}"
    if option in ("--config", "-c"):
        return "put it before the command: lacuna --config FILE COMMAND"
    if option == "--replication-factor":
        return "Lacuna has no replicas, because the object store keeps the records safe"
    if re.fullmatch(r"-\d+", option):
        return "numbers must be 0 or more"
    arguments = [one.name.upper() for one in command.params if one.param_type_name == "argument"]
    if option in _NAMES and arguments:
        return f"the name is an argument here: {' '.join([command.name, *arguments])}"
    return ""
