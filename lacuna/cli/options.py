"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Control = Annotated[
    str | None,
    typer.Option(
        "--control",
        envvar="LACUNA_CONTROL",
        help="The control plane: HOST:PORT, or unix:PATH.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", "-d", envvar="LACUNA_DATA", help="The data folder; ./data by default."),
]
Listen = Annotated[
    str, typer.Option("--listen", "-l", help="HOST:PORT to listen on; port 0 takes a free one.")
]
Bucket = Annotated[
    str | None,
    typer.Option("--bucket", help="Keep the records in this S3 bucket, or BUCKET/PREFIX."),
]
Endpoint = Annotated[
    str | None, typer.Option("--endpoint", help="URL of the S3 service, where it is not AWS.")
]
CreateBucket = Annotated[
    bool, typer.Option("--create-bucket", help="Make the bucket where it is not there.")
]
Advertise = Annotated[
    str | None,
    typer.Option("--advertise", help="HOST:PORT that clients are told to connect to, if another."),
]
Zone = Annotated[str, typer.Option("--zone", help="Availability zone; clients stay in it.")]
Workers = Annotated[
    int,
    typer.Option("--workers", "-w", min=1, help="Processes that share the port; one a core."),
]
FlushInterval = Annotated[
    int | None,
    typer.Option(
        "--flush-interval-ms",
        min=0,
        help="How long records wait for company before they are written: 250 on S3, else 0.",
        show_default=False,
    ),
]
Partitions = Annotated[
    int, typer.Option("--partitions", min=1, help="Of topics that are created without a count.")
]
AutoCreate = Annotated[
    bool, typer.Option(help="Create a topic at its first use, as Kafka does by default.")
]
CacheMebibytes = Annotated[
    int, typer.Option("--cache-mib", min=1, help="Memory for records that are read, per worker.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what it does.")]
