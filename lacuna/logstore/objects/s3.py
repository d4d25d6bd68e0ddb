"""Objects in a bucket of S3 or an S3-compatible service, accessed through boto3 (`s3_client`).

An object is created by a PUT with `If-None-Match: *`. boto3 repeats a PUT that gets no response. If the first attempt
did succeed, the second one fails with 412, because the object now exists. So when a *repeated* PUT is rejected, the
object is read back, and the put succeeds if the bytes are the ones it wrote. When a first attempt is rejected, the put
raises `ObjectExistsError`, whatever the object contains.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, NoReturn, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from urllib3.exceptions import HTTPError

from lacuna.logstore.objects.conditional import ConditionFailedError, VersionedObject
from lacuna.logstore.objects.latencies import request_kind
from lacuna.logstore.objects.prices import AMAZON_S3
from lacuna.logstore.objects.s3_client import CONNECTIONS, s3_clients
from lacuna.logstore.objects.second_attempts import Outcome, Request, SecondAttempts
from lacuna.logstore.objects.store import (
    BucketMissingError,
    InvalidKeyError,
    NotDeletedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectNotFoundError,
    ObjectStoreError,
    Part,
    RangeRead,
    RangeReader,
    ShortReadError,
    StoreMetrics,
    StoreMisconfiguredError,
    StoreUnavailableError,
    WritableBuffer,
    check_key,
    check_prefix,
    check_range,
    get_each,
    get_parts,
)

log = logging.getLogger("lacuna.objects")

T = TypeVar("T")

READS_AT_ONCE = 32
"""A request spends most of its time waiting, so concurrent requests are faster."""
READ_GAP = 128 * 1024
"""The number of bytes that a small machine's network transfers in the time that one more request takes (adr/0021)."""

SSE_KINDS = ("AES256", "aws:kms", "aws:kms:dsse")

_READ_ATTEMPTS = 3
_DELETE_KEYS = 1000
_NEVER_THERE = "lacuna-deletion-probe"
_PAGE_KEYS = 1000
#: After this time without a response, a request is made again over a new connection. A journal's lease is three
#: seconds.
_ANSWER_S = 1.0
_IMPATIENT_ANSWER_S = 0.5
#: The transfer rate from which the additional time for a request's bytes is computed.
_SLOW_BYTES_S = 4 << 20
_CREDENTIAL_CODES = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AuthFailure"}
)
_FORBIDDEN_CODES = _CREDENTIAL_CODES | {"AccessDenied"}
# Temporary errors that S3 returns with a status that otherwise indicates an invalid request.
_PASSING_CODES = frozenset(
    {"OperationAborted", "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException"}
)
_PASSING_STATUS = frozenset({408, 429})
# Responses to DeleteObjects from services that do not support it, or expect different headers.
_NOT_SO_STATUS = frozenset({400, 405, 411, 501})
_UNREACHABLE = (
    HTTPClientError, EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError,
)  # fmt: skip
_STREAM_ERRORS = (HTTPError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError, OSError)


@dataclass(frozen=True, slots=True)
class ServerSideEncryption:
    """How S3 should encrypt objects: one of `SSE_KINDS`, and a KMS key ("" for S3's own key)."""

    kind: str
    kms_key_id: str = ""

    def arguments(self) -> dict[str, str]:
        of_kms = {"SSEKMSKeyId": self.kms_key_id} if self.kms_key_id else {}
        return {"ServerSideEncryption": self.kind, **of_kms}


class S3Store(RangeReader):
    """A `ConditionalStore` under `prefix` of `bucket`.

    `endpoint` is None for AWS. If credentials or the region are not given, they come from boto3's usual chain
    (environment, profile, instance). `read_gap` is the largest gap, in bytes, between two ranges read by one request.
    Every PUT requests `encryption`; if the service does not confirm it, `StoreMisconfiguredError` is raised, although
    the object has been written.

    With `is_impatient`, requests are sent once and fail after three seconds without a response, so that the caller can
    retry. A request without a response after one second (half a second with `is_impatient`) is sent again over a new
    connection. GETs, and PUTs that create an object, are also sent again if they take longer than 95% of such requests.
    """

    reads_at_once = READS_AT_ONCE

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        read_gap: int = READ_GAP,
        encryption: ServerSideEncryption | None = None,
        is_impatient: bool = False,
    ) -> None:
        self.metrics = StoreMetrics(CONNECTIONS, AMAZON_S3)
        self._encryption = encryption
        self.read_gap = read_gap
        self._readers = ThreadPoolExecutor(READS_AT_ONCE, "s3-read")
        self._bucket = bucket
        self._where = f"bucket {bucket!r} at {endpoint or 'AWS'}"
        self._prefix = self._checked(prefix).rstrip("/") + "/" if prefix else ""
        with self._errors(""):
            self._new_client = s3_clients(
                endpoint=endpoint,
                region=region,
                access_key_id=access_key_id,
                secret_access_key=secret_access_key,
                is_impatient=is_impatient,
            )
            self._client = self._opened_client()
        self._second_client: Any = None
        self._second_client_lock = Lock()
        self._attempts = SecondAttempts(2 * CONNECTIONS, _outcome)
        self._answer_seconds = _IMPATIENT_ANSWER_S if is_impatient else _ANSWER_S
        self._deletes_singly = False

    def _opened_client(self) -> Any:
        client: Any = self._new_client()
        client.meta.events.register("after-call.s3", self._note_date)
        return client

    def _note_date(self, http_response: Any, **_: Any) -> None:
        try:
            date = parsedate_to_datetime(http_response.headers["Date"])
        except (KeyError, ValueError):
            return  # not every service reports its time
        self.metrics.dated(int(date.timestamp() * 1000))

    def check(self) -> None:
        with self._errors(""):
            self._client.head_bucket(Bucket=self._bucket)
        # No such object ever exists, but the service still checks the request and the permission.
        try:
            self.delete([_NEVER_THERE])
        except NotDeletedError as error:
            raise error.failures[_NEVER_THERE] from error

    def create_bucket(self) -> None:
        """Create the bucket unless this account already owns it. For tests and temporary endpoints."""
        try:
            with self._errors(""):
                self._client.create_bucket(Bucket=self._bucket)
        except self._client.exceptions.BucketAlreadyOwnedByYou:
            return

    def put(self, key: str, parts: Sequence[Part]) -> None:
        name = self._name(key)
        body = b"".join(parts)
        try:
            with self.metrics.connection(), self._errors(key):
                self._put(key, name, body, IfNoneMatch="*")
        except _RefusedError as refusal:
            self._settle_refusal(key, body, refusal)
        self.metrics.count_put(len(body))

    def load(self, key: str) -> VersionedObject:
        data, etag = self._read_with_etag(key)
        self.metrics.count_get(len(data))
        return VersionedObject(bytes(data), etag)

    def create(self, key: str, data: bytes) -> str:
        return self._put_if(key, data, IfNoneMatch="*")

    def replace(self, key: str, data: bytes, etag: str) -> str:
        return self._put_if(key, data, IfMatch=etag)

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        if len(reads) < 2:
            return get_each(self, reads, buffer)
        return list(self._readers.map(lambda read: get_parts(self, read, buffer), reads))

    def get_all(self, key: str) -> bytearray:
        data = self._read(key)
        self.metrics.count_get(len(data))
        return data

    def size(self, key: str) -> int:
        name = self._name(key)
        with self.metrics.connection(), self._errors(key):
            head = self._ask(
                "head", lambda client: client.head_object(Bucket=self._bucket, Key=name)
            )
        size: int = head["ContentLength"]
        self.metrics.count_size()
        return size

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ObjectInfo]:
        arguments: dict[str, Any] = {
            "Bucket": self._bucket,
            "Prefix": self._prefix + check_prefix(prefix),
            "MaxKeys": _PAGE_KEYS,
        }
        if start_after:
            arguments["StartAfter"] = self._prefix + start_after
        while True:
            with self.metrics.connection(), self._errors(""):
                page = self._ask("list", partial(_list, arguments=dict(arguments)))
            self.metrics.count_list()
            for entry in page.get("Contents", ()):
                modified_ms = int(entry["LastModified"].timestamp() * 1000)
                key = entry["Key"][len(self._prefix) :]
                yield ObjectInfo(key, entry["Size"], modified_ms)
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, keys: Iterable[str]) -> None:
        keys_of = {self._name(key): key for key in keys}
        names = iter(keys_of)
        failures: dict[str, ObjectStoreError] = {}
        while some := tuple(islice(names, _DELETE_KEYS)):
            failed = self._delete_some(some)
            failures.update((keys_of[name], error) for name, error in failed.items())
            self.metrics.count_deletes(len(some) - len(failed))
        if failures:
            raise NotDeletedError(failures)

    def _delete_some(self, names: Sequence[str]) -> dict[str, ObjectStoreError]:
        if self._deletes_singly:
            return self._delete_singly(names)
        try:
            with self.metrics.connection(), self._errors(""):
                answer = self._ask(
                    "delete",
                    lambda client: client.delete_objects(
                        Bucket=self._bucket,
                        Delete={"Objects": [{"Key": name} for name in names], "Quiet": True},
                    ),
                )
        except StoreMisconfiguredError as refusal:
            if not _is_about_the_request(refusal):
                raise
            failed = self._delete_singly(names)
            if len(failed) < len(names):
                self._deletes_singly = True
                log.warning(
                    "%s rejects DeleteObjects, so each object is deleted with a separate request "
                    "(%s)",
                    self._where,
                    refusal,
                )
            return failed
        return {
            error["Key"]: self._not_deleted(
                error["Key"], error.get("Code", ""), error.get("Message", "")
            )
            for error in answer.get("Errors", ())
            if error.get("Code") != "NoSuchKey"
        }

    def _delete_singly(self, names: Sequence[str]) -> dict[str, ObjectStoreError]:
        errors = self._readers.map(self._delete_one, names)
        return {name: error for name, error in zip(names, errors, strict=True) if error is not None}

    def _delete_one(self, name: str) -> ObjectStoreError | None:
        try:
            with self.metrics.connection(), self._errors(name):
                self._ask(
                    "delete", lambda client: client.delete_object(Bucket=self._bucket, Key=name)
                )
        except ObjectNotFoundError:
            return None
        except ObjectStoreError as error:
            return error
        return None

    def close(self) -> None:
        self._readers.shutdown()
        self._attempts.close()
        self._client.close()
        if self._second_client is not None:
            self._second_client.close()

    def _name(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _checked(self, prefix: str) -> str:
        try:
            return check_prefix(prefix)
        except InvalidKeyError as error:
            raise StoreMisconfiguredError(
                f"{self._where} cannot have the prefix {prefix!r}: use only letters, digits, "
                "'.', '_', '=', '-' and '/'"
            ) from error

    def _not_deleted(self, name: str, code: str, message: str) -> ObjectStoreError:
        failed = f"{self._where} did not delete {name!r}: {message} ({code})"
        if code in _FORBIDDEN_CODES:
            return StoreMisconfiguredError(
                f"{failed}: check the permission to delete objects there"
            )
        return StoreUnavailableError(failed)

    def _put(self, key: str, name: str, body: bytes, **condition: str) -> Any:
        encryption = self._encryption
        asked = {} if encryption is None else encryption.arguments()
        answer = self._ask(
            "put",
            lambda client: client.put_object(
                Bucket=self._bucket, Key=name, Body=body, **condition, **asked
            ),
            len(body),
            hedged="IfNoneMatch" in condition,
        )
        if encryption is not None:
            done = answer.get("ServerSideEncryption", "none")
            if done != encryption.kind:
                raise StoreMisconfiguredError(
                    f"{self._where} was asked to encrypt {key!r} with {encryption.kind}, but "
                    f"reports that it used {done}: use a service that supports {encryption.kind}, "
                    "or omit the `sse` option (--s3-sse)"
                )
        return answer

    def _put_if(self, key: str, data: bytes, **condition: str) -> str:
        name = self._name(key)
        try:
            with self.metrics.connection(), self._errors(key):
                answer = self._put(key, name, data, **condition)
        except _RefusedError as refusal:
            if refusal.is_conflict:
                raise StoreUnavailableError(
                    f"{self._where}: another request for {key!r} was under way; nothing was written"
                ) from None
            raise ConditionFailedError(key) from None
        self.metrics.count_put(len(data))
        if "ETag" not in answer:
            raise StoreMisconfiguredError(
                f"{self._where} returned no ETag for {key!r}, but conditional writes need one"
            )
        return str(answer["ETag"])

    def _range(self, key: str, position: int, size: int) -> bytearray:
        check_range(key, position, size)
        try:
            return self._read(key, size, Range=f"bytes={position}-{position + size - 1}")
        except _RangeBeyondEndError:
            raise ShortReadError(key, position, size, 0) from None

    def _read(self, key: str, size: int = 0, **arguments: str) -> bytearray:
        return self._read_with_etag(key, size, **arguments)[0]

    def _read_with_etag(self, key: str, size: int = 0, **arguments: str) -> tuple[bytearray, str]:
        """Read an object or a range of it. `size` is its approximate size in bytes, or 0 if unknown.

        boto3 repeats failed requests, but not those whose response body breaks off.
        """
        name = self._name(key)

        def read(client: Any) -> tuple[bytearray, str]:
            answer = client.get_object(Bucket=self._bucket, Key=name, **arguments)
            try:
                return _read_body(answer), answer.get("ETag", "")
            except _STREAM_ERRORS as error:
                raise _BrokenOffError(str(error)) from error

        attempts = 0
        while True:
            attempts += 1
            try:
                with self.metrics.connection(), self._errors(key):
                    return self._ask("get", read, size, hedged=True)
            except _BrokenOffError as error:
                if attempts == _READ_ATTEMPTS:
                    raise StoreUnavailableError(
                        f"{self._where} aborted the read of {key!r} {attempts} times: {error}"
                    ) from error

    def _ask(
        self, operation: str, request: Callable[[Any], T], size: int = 0, *, hedged: bool = False
    ) -> T:
        """Send a request that transfers `size` bytes, and send it again if no response arrives in time."""
        ended = self._attempts.call(
            Request(
                lambda: request(self._client),
                lambda: request(self._client_anew()),
                self._answer_seconds + size / _SLOW_BYTES_S,
                request_kind(operation, size) if hedged else None,
            )
        )
        for reason in ended.reasons:
            self.metrics.count_second_attempt(operation, reason)
        error = ended.attempt.exception()
        if ended.reasons and isinstance(error, ClientError):
            # Our own other attempt may have caused a 412, just as a repetition by boto3 may.
            error.response["ResponseMetadata"]["RetryAttempts"] = 1
        return ended.attempt.result()

    def _client_anew(self) -> Any:
        """Return the client for second attempts, which has its own connections: the first client's may all be dead."""
        with self._second_client_lock:
            if self._second_client is None:
                self._second_client = self._opened_client()
                self._second_client.meta.events.register("before-send.s3", _close_afterwards)
            return self._second_client

    def _settle_refusal(self, key: str, body: bytes, refusal: "_RefusedError") -> None:
        """Raise an error unless an earlier attempt by this client created the object."""
        try:
            if refusal.repeated and self._read(key) == body:
                return
            self.size(key)
        except ObjectNotFoundError:
            raise StoreUnavailableError(
                f"{self._where}: another request for {key!r} was under way; nothing was written"
            ) from None
        raise ObjectExistsError(key)

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            self._raise_for(error, key)
        except (NoCredentialsError, NoRegionError) as error:
            raise StoreMisconfiguredError(
                f"{self._where}: {error}: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
                "AWS_REGION, or a profile"
            ) from error
        except _UNREACHABLE as error:
            raise StoreUnavailableError(
                f"{self._where} cannot be reached: check the endpoint, and that a server is running there ({error})"
            ) from error
        except (BotoCoreError, ValueError) as error:
            raise StoreMisconfiguredError(f"{self._where}: {error}") from error

    def _raise_for(self, error: ClientError, key: str) -> NoReturn:
        code, status = _answered(error)
        if code == "BucketAlreadyOwnedByYou":
            raise error
        if status in (409, 412) and error.operation_name == "PutObject":
            attempts = error.response["ResponseMetadata"].get("RetryAttempts", 0)
            raise _RefusedError(is_conflict=status == 409, repeated=attempts > 0) from error
        if status == 416:
            raise _RangeBeyondEndError from error
        if code == "NoSuchBucket" or (status == 404 and not key):
            message = f"{self._where} does not exist: create it, or specify a different bucket"
            raise BucketMissingError(message) from error
        if status == 404:
            raise ObjectNotFoundError(key) from error
        if code in _PASSING_CODES or status in _PASSING_STATUS:
            raise StoreUnavailableError(f"{self._where} failed temporarily: {error}") from error
        if code == "RequestTimeTooSkewed":
            raise StoreMisconfiguredError(
                f"{self._where} and this machine disagree about the time: set the machine's clock "
                f"({error})"
            ) from error
        if code in _CREDENTIAL_CODES or status in (401, 403):
            raise StoreMisconfiguredError(
                f"{self._where} rejects the credentials ({code}): check AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and their permissions to list, get, put and delete "
                "objects there"
            ) from error
        if 400 <= status < 500 or status == 501:
            raise StoreMisconfiguredError(f"{self._where} rejects the request: {error}") from error
        raise StoreUnavailableError(f"{self._where} failed temporarily: {error}") from error


@dataclass(eq=False)
class _RefusedError(Exception):
    """A conditional PUT failed with 412 (the object exists) or 409 (another PUT is in progress)."""

    is_conflict: bool
    repeated: bool


class _RangeBeyondEndError(Exception):
    """A GET failed with 416."""


class _BrokenOffError(Exception):
    """A response ended before its body was complete."""


def _list(client: Any, arguments: dict[str, Any]) -> Any:
    return client.list_objects_v2(**arguments)


def _answered(error: ClientError) -> tuple[str, int]:
    """Return the error code and HTTP status of a response, or "" and 0 if they are missing."""
    metadata = error.response.get("ResponseMetadata", {})
    return error.response.get("Error", {}).get("Code", ""), metadata.get("HTTPStatusCode", 0)


def _outcome(error: BaseException) -> Outcome:
    """Return whether a failed attempt got a response, and whether other attempts would get the same one."""
    if not isinstance(error, ClientError):
        return Outcome.FAILURE
    _, status = _answered(error)
    if status == 412:
        return Outcome.REFUSAL
    return Outcome.ANSWER if status < 500 and status != 409 else Outcome.FAILURE


def _close_afterwards(request: Any, **_: object) -> None:
    request.headers["Connection"] = "close"


def _is_about_the_request(refusal: StoreMisconfiguredError) -> bool:
    """Whether the service rejects the request because it does not support the form in which boto3 sends it."""
    error = refusal.__cause__
    if not isinstance(error, ClientError):
        return False
    code, status = _answered(error)
    return status in _NOT_SO_STATUS and code not in _FORBIDDEN_CODES


def _read_body(answer: Any) -> bytearray:
    size = answer["ContentLength"]
    data = bytearray(size)
    filled = 0
    with answer["Body"] as body, memoryview(data) as view:
        while filled < size:
            count = body.readinto(view[filled:])
            if not count:
                raise IncompleteReadError(actual_bytes=filled, expected_bytes=size)
            filled += count
    return data
