"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

#: What says which cluster it is, and what else, once typed, says it instead of the environment.
_INSTEAD = {"control": ("data",), "data": ("control", "store")}


def folder(text: str) -> Path:
    """A folder that was named: a variable of a script that is not set would name the current one."""
    if not text:
        raise typer.BadParameter("it is empty; . is the current folder")
    return Path(text)


def _not_empty(text: str | None) -> str | None:
    """The same for buckets and URLs, which would be taken for not given."""
    if text == "":
        raise typer.BadParameter("it is empty: name one, or leave the option out")
    return text


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line; else it is a default or the environment's."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _typed_first(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """What is typed says which cluster; the environment is asked where that says nothing."""
    name = parameter.name or ""
    is_overruled = any(is_typed(context, other) for other in _INSTEAD[name])
    return None if is_overruled and not is_typed(context, name) else value


_RECORDS = "Where the records are"
_CLIENTS = "Clients"
_TOPICS = "Topics made at first use"
_SPEED = "Speed"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="LACUNA_BOOTSTRAP",
        help="HOST:PORT of any agent; several, separated by commas, are tried in turn.",
    ),
]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA = Path("data")

Control = Annotated[
    str | None,
    typer.Option(
        "--control",
        envvar="LACUNA_CONTROL",
        callback=_typed_first,
        help="The control plane to ask: HOST:PORT, or unix:PATH.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "-d",
        envvar="LACUNA_DATA",
        parser=folder,
        metavar="PATH",
        callback=_typed_first,
        help="Or the data folder of the running `lacuna up`; ./data if neither is given.",
    ),
]
Bucket = Annotated[
    str | None,
    typer.Option(
        "--bucket",
        callback=_not_empty,
        help="An S3 bucket, or BUCKET/PREFIX.",
        rich_help_panel=_RECORDS,
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        callback=_not_empty,
        help="URL of the S3 service, where it is not AWS.",
        rich_help_panel=_RECORDS,
    ),
]
CreateBucket = Annotated[
    bool,
    typer.Option(
        "--create-bucket", help="Make the bucket where it is not there.", rich_help_panel=_RECORDS
    ),
]
Moto = Annotated[
    bool,
    typer.Option(
        "--moto",
        help="For trying S3 out: a server of its own in memory. All data, the journal's too, is "
        "forgotten at the end.",
        rich_help_panel=_RECORDS,
    ),
]
Objects = Annotated[
    Path | None,
    typer.Option(
        "--objects",
        parser=folder,
        metavar="PATH",
        help="Or a folder that all agents share.",
        rich_help_panel=_RECORDS,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        callback=_not_empty,
        help="Or either as a URL: s3://BUCKET/PREFIX?endpoint=URL, file:///FOLDER.",
        rich_help_panel=_RECORDS,
    ),
]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        "-l",
        help="HOST:PORT where Kafka clients connect; port 0 takes a free one.",
        rich_help_panel=_CLIENTS,
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        help="HOST:PORT that clients are told to use, where it is not what --listen says.",
        rich_help_panel=_CLIENTS,
    ),
]
Zone = Annotated[
    str,
    typer.Option(
        "--zone",
        help="This agent's availability zone; clients that name theirs stay in it.",
        rich_help_panel=_CLIENTS,
    ),
]
Partitions = Annotated[
    int,
    typer.Option(
        "--partitions", min=1, help="How many partitions they get.", rich_help_panel=_TOPICS
    ),
]
NoAutoCreate = Annotated[
    bool,
    typer.Option(
        "--no-auto-create", help="Make none: an unknown topic is an error.", rich_help_panel=_TOPICS
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        "-w",
        min=1,
        max=256,
        help="Processes behind the port; as many as there are cores at most.",
        rich_help_panel=_SPEED,
    ),
]
FlushInterval = Annotated[
    int | None,
    typer.Option(
        "--flush-ms",
        min=0,
        help="Milliseconds that records wait for company before they are written. More: fewer "
        "objects, slower acknowledgements. 250 on S3, 0 on a folder if not given.",
        rich_help_panel=_SPEED,
    ),
]
CacheMebibytes = Annotated[
    int,
    typer.Option(
        "--cache-mib",
        min=1,
        help="Memory for records that were read, for each worker.",
        rich_help_panel=_SPEED,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what it does.")]

_SPARK = "Spark"

Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="LACUNA_SPARK_MASTER",
        help="Where Spark runs: local[*], local[N], spark://HOST:PORT, yarn, k8s://URL.",
        rich_help_panel=_SPARK,
    ),
]
DEFAULT_MASTER = "local[*]"
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        help="A setting of Spark's, NAME=VALUE; as often as you like.",
        rich_help_panel=_SPARK,
    ),
]
