"""Buckets in S3 and S3-compatible services: s3://BUCKET/PREFIX?endpoint=URL&region=NAME.

URLs never contain credentials, which come from boto3's usual chain.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, urlencode

from lacuna.logstore.objects.kind import KEYS_OPTION, Options, OtherClients, StoreKind
from lacuna.logstore.objects.prices import AMAZON_S3
from lacuna.logstore.objects.store import StoreMisconfiguredError

if TYPE_CHECKING:
    from lacuna.logstore.objects.s3 import S3Store, ServerSideEncryption

_SCHEME: Final = "s3"
_SSE: Final = "sse"
_SSE_KEY: Final = "sse_kms_key_id"
#: The region sent to services other than AWS if a URL names none.
_ANY_REGION: Final = "us-east-1"


def bucket_url(bucket: str, **options: str | None) -> str:
    """Return the URL of BUCKET or BUCKET/PREFIX with the options that are not empty."""
    given = urlencode({name: value for name, value in options.items() if value}, safe=":/")
    return f"{_SCHEME}://{quote(bucket.removeprefix(f'{_SCHEME}://'))}" + f"?{given}" * bool(given)


def _open(parts: SplitResult, options: Options, *, is_impatient: bool = False) -> "S3Store":
    if find_spec("boto3") is None:
        raise StoreMisconfiguredError("a bucket needs boto3: pip install 'lacuna-log[s3]'")
    # importing boto3 takes a third of a second, and only S3 needs it
    from lacuna.logstore.objects.s3 import READ_GAP, S3Store

    read_gap = options.get("read_gap", str(READ_GAP))
    if not (read_gap.isascii() and read_gap.isdigit()):
        raise StoreMisconfiguredError(
            f"{bucket_url(parts.netloc)}: read_gap must be a number of bytes, such as "
            f"read_gap={READ_GAP}, not {read_gap!r}"
        )
    return S3Store(
        parts.netloc,
        parts.path.strip("/"),
        endpoint=options.get("endpoint"),
        region=options.get("region"),
        read_gap=int(read_gap),
        encryption=_encryption(bucket_url(parts.netloc), options),
        is_impatient=is_impatient,
    )


def _open_for_journal(parts: SplitResult, options: Options) -> "S3Store":
    """Open a bucket for a journal: requests are sent only once, and fail after a few seconds."""
    return _open(parts, options, is_impatient=True)


def _encryption(where: str, options: Options) -> "ServerSideEncryption | None":
    from lacuna.logstore.objects.s3 import SSE_KINDS, ServerSideEncryption

    kind, key_id = options.get(_SSE, ""), options.get(_SSE_KEY, "")
    if not kind and not key_id:
        return None
    if kind not in SSE_KINDS:
        raise StoreMisconfiguredError(
            f"{where}: {_SSE} must be one of {', '.join(SSE_KINDS)}, not {kind!r}"
        )
    if key_id and not kind.startswith("aws:kms"):
        raise StoreMisconfiguredError(
            f"{where}: {_SSE_KEY} requires {_SSE}=aws:kms or aws:kms:dsse, but it is {kind}"
        )
    return ServerSideEncryption(kind, key_id)


def _arrow(options: Options) -> Any:
    from pyarrow.fs import S3FileSystem

    endpoint = options.get("endpoint")
    region = options.get("region") or (_ANY_REGION if endpoint else None)
    return S3FileSystem(endpoint_override=endpoint, region=region)


S3: Final = StoreKind(
    scheme=_SCHEME,
    form="s3://BUCKET/PREFIX?endpoint=URL&region=NAME",
    is_store=lambda parts: bool(parts.netloc),
    open=_open,
    open_for_journal=_open_for_journal,
    options=("endpoint", "region", "read_gap", _SSE, _SSE_KEY, KEYS_OPTION),
    encrypting=frozenset({_SSE, _SSE_KEY}),
    prices=AMAZON_S3,
    others=OtherClients(arrow=_arrow, catalog={"endpoint": "s3.endpoint", "region": "s3.region"}),
)
