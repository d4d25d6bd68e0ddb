"""Creates boto3 clients for S3, with their timeouts, retries and headers.

boto3's additional checksums are disabled: batches, blocks and footers already contain CRC-32C, and checksumming every
byte once more would use more CPU time than the rest of the request.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.loaders import Loader, create_loader
from botocore.session import Session

CONNECTIONS: Final = 64
"""The maximum number of connections that a client keeps open. Each call beyond that opens another connection and closes
it afterwards.
"""

_ATTEMPTS = 4
_CONNECT_TIMEOUT_S: Final = 5
_READ_TIMEOUT_S: Final = 30
_IMPATIENT_TIMEOUT_S: Final = 3


def s3_clients(
    *,
    endpoint: str | None,
    region: str | None,
    access_key_id: str | None,
    secret_access_key: str | None,
    is_impatient: bool,
) -> Callable[[], Any]:
    """Return a function that creates clients, which share credentials but not connections.

    `S3Store` describes the arguments. The function raises BotoCoreError and ValueError.
    """
    session = _session()
    config = _config(path_style=endpoint is not None, is_impatient=is_impatient)

    def make() -> Any:
        client = session.client(
            "s3",
            endpoint_url=endpoint,
            region_name=region or ("us-east-1" if endpoint else None),
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            config=config,
        )
        client.meta.events.register("before-sign.s3.PutObject", _drop_expect)
        client.meta.events.register("before-call.s3.DeleteObjects", _add_md5)
        return client

    return make


def _session() -> Any:
    """Return a session that shares boto3's description of S3 with other sessions, since loading it takes a tenth of a
    second.
    """
    session = Session()
    made = boto3.Session(botocore_session=session)
    # boto3 adds its folder to each session's loader, so the shared loader is registered only afterwards.
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return made


@cache
def _loader(data_path: str | None) -> Loader:
    return create_loader(data_path)


def _config(*, path_style: bool, is_impatient: bool) -> Config:
    return Config(
        max_pool_connections=CONNECTIONS,
        connect_timeout=_IMPATIENT_TIMEOUT_S if is_impatient else _CONNECT_TIMEOUT_S,
        read_timeout=_IMPATIENT_TIMEOUT_S if is_impatient else _READ_TIMEOUT_S,
        tcp_keepalive=True,
        retries={"mode": "standard", "total_max_attempts": 1 if is_impatient else _ATTEMPTS},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if path_style else "auto"},
    )


def _drop_expect(request: Any, **_: object) -> None:
    """Remove `Expect: 100-continue`, which would delay every PUT by a round trip before its body is sent."""
    del request.headers["Expect"]


def _add_md5(params: dict[str, Any], **_: object) -> None:
    """Add Content-MD5, which boto3 no longer sends, but without which several services reject DeleteObjects."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = b64encode(digest).decode()
