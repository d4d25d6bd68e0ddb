"""Tests failures that are specific to S3, on a scripted server and on moto's."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, ProxyConnectionError, ReadTimeoutError

from lacuna.logstore.objects import (
    BucketMissingError,
    ConditionFailedError,
    NotDeletedError,
    ObjectExistsError,
    ObjectNotFoundError,
    ShortReadError,
    StoreMisconfiguredError,
    StoreUnavailableError,
    second_attempts,
)
from lacuna.logstore.objects.latencies import request_kind
from lacuna.logstore.objects.s3 import READ_GAP, S3Store, ServerSideEncryption
from lacuna.logstore.objects.second_attempts import SILENT, SLOW
from lacuna.logstore.objects.store import wall_clock_ms


@dataclass
class Answer:
    """A server's response, sent once `after` is set. `missing` bytes are promised but never sent."""

    status: int
    body: bytes = b""
    missing: int = 0
    after: threading.Event | None = None


@dataclass
class Script:
    """The remaining responses (the last one repeats) and the received requests."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    #: The clients' ports, one for each request.
    ports: list[int] = field(default_factory=list)
    #: The paths of requests that were left without an answer, until their `after` was set.
    silent: list[str] = field(default_factory=list)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.slow
def test_connections_in_use_are_counted(script: Script, scripted: S3Store) -> None:
    """A connection is counted while a body is being read, and not after a failed request."""
    seen: list[int] = []
    real = Script.next

    def next_answer() -> Answer:
        seen.append(scripted.metrics.connections_in_use)
        return real(script)

    script.next = next_answer  # type: ignore[method-assign]
    script.answers = [Answer(200, b"abc"), error(403, "AccessDenied")]
    assert scripted.get("a", 0, 3) == b"abc"
    with pytest.raises(StoreMisconfiguredError):
        scripted.size("a")
    assert seen[:2] == [1, 1]
    assert scripted.metrics.connections_in_use == 0
    assert scripted.metrics.connections_kept > 0


def error(status: int, code: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode())


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def scripted(script: Script) -> Iterator[S3Store]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            script.ports.append(self.client_address[1])
            script.requests.append((self.command, self.path, dict(self.headers)))
            answer = script.next()
            if answer.after is not None:
                script.silent.append(self.path)
                answer.after.wait(60)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body) + answer.missing))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    for command in ("GET", "PUT", "HEAD", "POST", "DELETE"):
        setattr(Handler, f"do_{command}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    store = S3Store(
        "bucket",
        "prefix",
        endpoint=f"http://127.0.0.1:{server.server_port}",
        access_key_id="a",
        secret_access_key="b",
    )
    # A test starved of CPU makes no second attempt: only `soon` triggers them.
    store._answer_seconds = 3600.0
    yield store
    store.close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.logstore.objects.s3_client._ATTEMPTS", 1)


def test_a_put_is_one_conditional_request_without_extra_checksums(
    scripted: S3Store, script: Script
) -> None:
    script.answers = [Answer(200)]
    scripted.put("k", [b"payload"])
    ((command, path, headers),) = script.requests
    assert (command, path) == ("PUT", "/bucket/prefix/k")
    assert headers["If-None-Match"] == "*"
    assert "Expect" not in headers
    assert not [name for name in headers if "checksum" in name.lower() or name == "Trailer"]


def test_a_repeated_put_that_meets_its_own_object_has_succeeded(
    scripted: S3Store, script: Script
) -> None:
    """The first PUT arrived but its reply did not. The second is rejected because of the first one's object."""
    script.answers = [error(500, "InternalError"), error(412, "PreconditionFailed")]
    script.answers += [Answer(200, b"payload")]
    scripted.put("k", [b"pay", b"load"])
    assert [command for command, _, _ in script.requests] == ["PUT", "PUT", "GET"]
    assert scripted.metrics.puts == 1


def test_a_repeated_put_that_meets_another_object_is_refused(
    scripted: S3Store, script: Script
) -> None:
    script.answers = [error(500, "InternalError"), error(412, "PreconditionFailed")]
    script.answers += [Answer(200, b"another's")]
    with pytest.raises(ObjectExistsError):
        scripted.put("k", [b"payload"])


def test_a_put_refused_at_once_is_refused_whatever_is_there(
    scripted: S3Store, script: Script
) -> None:
    script.answers = [error(412, "PreconditionFailed"), Answer(200, b"payload")]
    with pytest.raises(ObjectExistsError):
        scripted.put("k", [b"payload"])
    assert [command for command, _, _ in script.requests] == ["PUT", "HEAD"]


def test_a_put_that_collides_with_one_under_way(scripted: S3Store, script: Script) -> None:
    conflict = error(409, "ConditionalRequestConflict")
    script.answers = [conflict, Answer(200)]
    with pytest.raises(ObjectExistsError):
        scripted.put("k", [b"payload"])
    script.answers = [conflict, Answer(404)]
    with pytest.raises(StoreUnavailableError, match="nothing was written"):
        scripted.put("k", [b"payload"])


def test_conditional_writes_say_on_what(scripted: S3Store, script: Script) -> None:
    script.answers = [Answer(200)]
    etag = '"e"'
    with pytest.raises(StoreMisconfiguredError, match="returned no ETag"):
        scripted.create("k", b"payload")
    with pytest.raises(StoreMisconfiguredError, match="returned no ETag"):
        scripted.replace("k", b"payload", etag)
    (_, _, create), (_, _, replace) = script.requests
    assert create["If-None-Match"] == "*"
    assert replace["If-Match"] == etag


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error(412, "PreconditionFailed"), ConditionFailedError),
        (error(409, "ConditionalRequestConflict"), StoreUnavailableError),
        (error(409, "OperationAborted"), StoreUnavailableError),
        (error(503, "SlowDown"), StoreUnavailableError),
        (error(404, "NoSuchKey"), ObjectNotFoundError),
        (error(404, "NoSuchBucket"), BucketMissingError),
        (error(501, "NotImplemented"), StoreMisconfiguredError),
        (error(403, "AccessDenied"), StoreMisconfiguredError),
    ],
)
def test_answers_to_conditional_writes(
    one_attempt: None,
    scripted: S3Store,
    script: Script,
    answer: Answer,
    expected: type[Exception],
) -> None:
    script.answers = [answer]
    with pytest.raises(expected):
        scripted.replace("k", b"payload", "e")
    assert [command for command, _, _ in script.requests] == ["PUT"]


def test_a_body_that_breaks_off_is_read_again(scripted: S3Store, script: Script) -> None:
    script.answers = [Answer(206, b"012", missing=2), Answer(206, b"01234")]
    assert scripted.get("k", 0, 5) == b"01234"
    assert script.requests[0][2]["Range"] == "bytes=0-4"
    script.answers = [Answer(200, b"012", missing=2)]
    with pytest.raises(StoreUnavailableError, match="aborted the read of 'k' 3 times"):
        scripted.get_all("k")


def test_a_server_that_ignores_ranges_is_found_out(scripted: S3Store, script: Script) -> None:
    script.answers = [Answer(200, b"0123456789")]
    with pytest.raises(ShortReadError):
        scripted.get("k", 2, 3)


@pytest.mark.parametrize(
    ("answer", "expected", "advice"),
    [
        (error(403, "InvalidAccessKeyId"), StoreMisconfiguredError, "AWS_ACCESS_KEY_ID"),
        (error(403, "AccessDenied"), StoreMisconfiguredError, "permissions to list, get, put"),
        (error(400, "ExpiredToken"), StoreMisconfiguredError, "rejects the credentials"),
        (
            error(404, "NoSuchBucket"),
            StoreMisconfiguredError,
            "create it, or specify a different bucket",
        ),
        (error(404, "NoSuchKey"), ObjectNotFoundError, "'k' does not exist"),
        (error(400, "Whatever"), StoreMisconfiguredError, "rejects the request"),
        (error(403, "RequestTimeTooSkewed"), StoreMisconfiguredError, "set the machine's clock"),
        (error(416, "InvalidRange"), ShortReadError, "holds only 0 of the 5 bytes"),
    ],
)
def test_errors_of_the_server_say_what_to_do(
    scripted: S3Store, script: Script, answer: Answer, expected: type[Exception], advice: str
) -> None:
    script.answers = [answer]
    with pytest.raises(expected, match=advice):
        scripted.get("k", 0, 5)


@pytest.mark.parametrize(
    "answer",
    [
        error(503, "SlowDown"),
        error(429, "TooManyRequests"),
        error(400, "RequestTimeout"),
        error(408, "Whatever"),
        error(409, "OperationAborted"),
    ],
)
def test_errors_that_pass_are_worth_a_retry(
    one_attempt: None, scripted: S3Store, script: Script, answer: Answer
) -> None:
    script.answers = [answer]
    with pytest.raises(StoreUnavailableError, match="failed temporarily"):
        scripted.get_all("k")
    with pytest.raises(StoreUnavailableError, match="failed temporarily"):
        [*scripted.list("some/")]


@pytest.mark.parametrize(
    "failure",
    [
        ConnectTimeoutError(endpoint_url="http://s3"),
        ProxyConnectionError(proxy_url="http://proxy"),
        ReadTimeoutError(endpoint_url="http://s3"),
    ],
)
def test_a_connection_that_does_not_come_about_is_worth_a_retry(
    one_attempt: None, scripted: S3Store, failure: Exception
) -> None:
    def fail(**_: object) -> None:
        raise failure

    scripted._client.meta.events.register("before-send.s3", fail)
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        scripted.check()


def test_a_listing_in_a_bucket_that_went_away(scripted: S3Store, script: Script) -> None:
    script.answers = [Answer(404)]
    with pytest.raises(BucketMissingError):
        [*scripted.list("some/")]


def failed_deletion(code: str) -> Answer:
    found = f"<Error><Key>prefix/k</Key><Code>{code}</Code><Message>no</Message></Error>"
    return Answer(200, f"<DeleteResult>{found}</DeleteResult>".encode())


def test_a_deletion_that_is_forbidden_says_what_to_do(scripted: S3Store, script: Script) -> None:
    script.answers = [failed_deletion("AccessDenied")]
    with pytest.raises(NotDeletedError, match="check the permission to delete") as left:
        scripted.delete(["k", "other"])
    assert isinstance(left.value.failures["k"], StoreMisconfiguredError)
    assert left.value.failures.keys() == {"k"}
    assert scripted.metrics.deletes == 1


def test_a_deletion_of_what_is_not_there(scripted: S3Store, script: Script) -> None:
    script.answers = [failed_deletion("NoSuchKey")]
    scripted.delete(["k"])
    assert scripted.metrics.deletes == 1


def test_a_failed_delete_is_an_error(scripted: S3Store, script: Script) -> None:
    script.answers = [failed_deletion("InternalError")]
    with pytest.raises(NotDeletedError, match="did not delete 'prefix/k': no") as left:
        scripted.delete(["k"])
    assert isinstance(left.value.failures["k"], StoreUnavailableError)


def test_a_deletion_has_the_md5_of_its_body(scripted: S3Store, script: Script) -> None:
    """Ceph, GCS, OSS and older MinIO reject it otherwise."""
    script.answers = [Answer(200, b"<DeleteResult/>")]
    scripted.delete(["k"])
    ((method, _, headers),) = script.requests
    assert (method, len(headers["Content-MD5"])) == ("POST", 24)


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "MissingContentMD5"), (405, "MethodNotAllowed"), (501, "NotImplemented")],
)
def test_a_service_without_delete_objects_deletes_singly(
    scripted: S3Store, script: Script, status: int, code: str, one_attempt: None
) -> None:
    script.answers = [error(status, code), Answer(204)]
    scripted.delete(["a", "b"])
    assert [method for method, *_ in script.requests] == ["POST", "DELETE", "DELETE"]
    scripted.delete(["c"])
    assert [method for method, *_ in script.requests][3:] == ["DELETE"]
    assert scripted.metrics.deletes == 3


def test_a_passing_refusal_does_not_end_delete_objects(scripted: S3Store, script: Script) -> None:
    script.answers = [error(400, "ExpiredToken")]
    with pytest.raises(StoreMisconfiguredError):
        scripted.delete(["a"])
    script.answers = [Answer(200, b"<DeleteResult/>")]
    scripted.delete(["a"])
    assert [method for method, *_ in script.requests] == ["POST", "POST"]


def test_a_store_that_may_not_delete_is_refused_at_the_start(
    scripted: S3Store, script: Script
) -> None:
    refused = failed_deletion("AccessDenied").body.replace(
        b"prefix/k", b"prefix/lacuna-deletion-probe"
    )
    script.answers = [Answer(200), Answer(200, refused)]
    with pytest.raises(StoreMisconfiguredError, match="check the permission to delete"):
        scripted.check()


def test_an_endpoint_that_does_not_answer(one_attempt: None) -> None:
    store = S3Store(
        "bucket", endpoint="http://127.0.0.1:1", access_key_id="a", secret_access_key="b"
    )
    with pytest.raises(StoreUnavailableError, match=r"cannot be reached: check the endpoint"):
        store.check()
    store.close()


def test_no_credentials_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    store = S3Store("bucket", endpoint="http://127.0.0.1:1")
    with pytest.raises(StoreMisconfiguredError, match="set AWS_ACCESS_KEY_ID"):
        store.check()
    store.close()


@pytest.mark.parametrize(
    ("bucket", "prefix", "endpoint"),
    [
        ("bucket", "", "no url"),
        ("not a bucket/", "", "http://127.0.0.1:1"),
        ("bucket", "not a prefix", "http://127.0.0.1:1"),
    ],
)
def test_names_that_cannot_be_are_refused(bucket: str, prefix: str, endpoint: str) -> None:
    with pytest.raises(StoreMisconfiguredError):
        S3Store(bucket, prefix, endpoint=endpoint, access_key_id="a", secret_access_key="b").check()


def test_a_bucket_that_is_missing_is_said_to_be(open_s3: Callable[..., S3Store]) -> None:
    store = open_s3(create=False)
    for call in (store.check, lambda: store.put("k", [b"x"]), lambda: list(store.list())):
        with pytest.raises(StoreMisconfiguredError, match="does not exist: create it"):
            call()
    store.create_bucket()
    store.create_bucket()
    store.check()


def test_a_bucket_that_is_somebody_elses(scripted: S3Store, script: Script) -> None:
    script.answers = [error(409, "BucketAlreadyOwnedByYou"), error(409, "BucketAlreadyExists")]
    scripted.create_bucket()
    with pytest.raises(StoreMisconfiguredError, match="rejects the request"):
        scripted.create_bucket()


def test_prefixes_of_one_bucket_do_not_see_each_other(open_s3: Callable[..., S3Store]) -> None:
    one, other, whole = open_s3("one"), open_s3("other/"), open_s3("")
    one.put("k", [b"1"])
    other.put("k", [b"2"])
    assert [info.key for info in one.list()] == ["k"]
    assert other.get_all("k") == b"2"
    assert [info.key for info in whole.list()] == ["one/k", "other/k"]
    assert one.read_gap == READ_GAP


@pytest.mark.parametrize(
    "encryption",
    [
        ServerSideEncryption("AES256"),
        ServerSideEncryption("aws:kms"),
        ServerSideEncryption("aws:kms", "arn:aws:kms:us-east-1:123456789012:key/k"),
        ServerSideEncryption("aws:kms:dsse"),
    ],
)
def test_every_put_asks_for_the_encryption_that_was_chosen(
    open_s3: Callable[..., S3Store], encryption: ServerSideEncryption
) -> None:
    store = open_s3("", encryption=encryption)
    store.put("put", [b"x"])
    etag = store.create("created", b"x")
    store.create("replaced", b"x")
    store.replace("replaced", b"y", etag)
    for key in ("put", "created", "replaced"):
        head = store._client.head_object(Bucket=store._bucket, Key=key)
        assert head["ServerSideEncryption"] == encryption.kind
        assert head.get("SSEKMSKeyId", "") == encryption.kms_key_id
    assert store.get_all("replaced") == b"y"


def test_a_service_that_does_not_encrypt_is_noticed(script: Script, scripted: S3Store) -> None:
    scripted._encryption = ServerSideEncryption("aws:kms")
    script.answers = [Answer(200)]
    with pytest.raises(
        StoreMisconfiguredError,
        match="encrypt 'k' with aws:kms, but reports that it used none",
    ):
        scripted.put("k", [b"x"])
    assert script.requests[0][2]["x-amz-server-side-encryption"] == "aws:kms"


def test_answers_tell_what_time_it_is_at_the_store(script: Script, scripted: S3Store) -> None:
    """Rejections carry the time, too."""
    assert scripted.metrics.clock_ms() == 0
    script.answers = [error(403, "AccessDenied")]
    with pytest.raises(StoreMisconfiguredError):
        scripted.size("a")
    assert abs(scripted.metrics.clock_ms() - wall_clock_ms()) < 3_600_000


# Connections that go silent


@pytest.fixture
def silence() -> Iterator[threading.Event]:
    """An event that lasts until the end of a test."""
    ended = threading.Event()
    yield ended
    ended.set()


class Silence:
    """Replaces the time limit for a first attempt, which ends once the script leaves the request unanswered."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self.noticed = 0

    def wait(
        self,
        calls: set[Future[Any]],
        timeout: float | None = None,
        return_when: str = ALL_COMPLETED,
    ) -> tuple[set[Future[Any]], set[Future[Any]]]:
        """Like `concurrent.futures.wait`, but with any `timeout`, waits until a request is left unanswered."""
        if timeout is None:
            return wait(calls, return_when=return_when)
        while not self._notices():
            done, left = wait(calls, 0.001, FIRST_COMPLETED)
            if done:
                return done, left
        return set(), calls

    def _notices(self) -> bool:
        with self._lock:
            is_new = len(self._script.silent) > self.noticed
            self.noticed += is_new
            return is_new


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch, script: Script) -> Silence:
    """Start a second attempt as soon as the first one is left unanswered, and no sooner."""
    silence = Silence(script)
    monkeypatch.setattr(second_attempts, "wait", silence.wait)
    return silence


@pytest.mark.usefixtures("soon")
def test_a_put_on_a_silent_connection_is_made_again_on_a_new_one(
    scripted: S3Store, script: Script, silence: threading.Event
) -> None:
    """It used to block all of a worker's producers until the 30 s timeout."""
    script.answers = [Answer(200, after=silence), Answer(200)]
    scripted.put("k", [b"abc"])
    assert [method for method, *_ in script.requests] == ["PUT", "PUT"]
    assert script.requests[1][2]["Connection"] == "close"
    assert scripted.metrics.second_attempts == {("put", SILENT): 1}
    silence.set()


@pytest.mark.usefixtures("soon")
def test_a_second_put_finds_what_the_first_one_wrote(
    scripted: S3Store, script: Script, silence: threading.Event
) -> None:
    """S12: the first one's reply was lost, so the second attempt is rejected."""
    script.answers = [
        Answer(200, after=silence), error(412, "PreconditionFailed"), Answer(200, b"abc")
    ]  # fmt: skip
    scripted.put("k", [b"abc"])
    script.answers = [
        Answer(200, after=silence), error(412, "PreconditionFailed"), Answer(200, b"abd")
    ]  # fmt: skip
    with pytest.raises(ObjectExistsError):
        scripted.put("k", [b"abc"])
    silence.set()


@pytest.mark.usefixtures("soon")
def test_a_read_on_a_silent_connection_is_made_again(
    scripted: S3Store, script: Script, silence: threading.Event
) -> None:
    script.answers = [Answer(206, b"abc", after=silence), Answer(206, b"abc")]
    assert scripted.get("k", 0, 3) == b"abc"
    silence.set()


def know_latencies(store: S3Store, operation: str, size: int) -> None:
    """Teach the store when a request is slow, and allow it second attempts, as after many requests."""
    store._attempts._allowed = 20.0
    for _ in range(64):
        store._attempts.latencies.add(request_kind(operation, size), 0.001)


@pytest.mark.usefixtures("soon")
def test_a_slow_read_is_made_again_over_another_connection(
    scripted: S3Store, script: Script, silence: threading.Event
) -> None:
    know_latencies(scripted, "get", 3)
    script.answers = [Answer(206, b"abc", after=silence), Answer(206, b"abc")]
    assert scripted.get("k", 0, 3) == b"abc"
    assert scripted.metrics.second_attempts == {("get", SLOW): 1}
    assert len(set(script.ports)) == 2
    silence.set()


@pytest.mark.usefixtures("soon")
def test_a_slow_put_that_succeeds_in_the_end_is_not_read_back(
    scripted: S3Store, script: Script
) -> None:
    """S12: the second attempt is rejected because of the first one, which is answered later."""
    know_latencies(scripted, "put", 3)
    written = threading.Event()
    second = error(412, "PreconditionFailed")
    script.answers = [Answer(200, after=written), second]
    real = Script.next

    def next_answer() -> Answer:
        answer = real(script)
        if answer is second:
            written.set()
        return answer

    script.next = next_answer  # type: ignore[method-assign]
    scripted.put("k", [b"abc"])
    assert [method for method, *_ in script.requests] == ["PUT", "PUT"]
    assert scripted.metrics.second_attempts == {("put", SLOW): 1}


@pytest.mark.usefixtures("soon")
def test_replacing_an_object_is_never_slow(
    scripted: S3Store, script: Script, silence: threading.Event
) -> None:
    know_latencies(scripted, "put", 3)
    script.answers = [Answer(200, after=silence), Answer(412)]
    with pytest.raises(ConditionFailedError):
        scripted.replace("k", b"abc", "etag")
    assert scripted.metrics.second_attempts == {("put", SILENT): 1}


@pytest.mark.slow
def test_a_store_that_is_slow_for_everybody_is_not_asked_twice_for_everything(
    scripted: S3Store, script: Script, soon: Silence
) -> None:
    slow = threading.Event()
    script.answers = [Answer(200, b"", after=slow)]
    threads = [threading.Thread(target=scripted.size, args=("k",)) for _ in range(30)]
    for thread in threads:
        thread.start()
    while soon.noticed < 30 or len(script.requests) < 40:
        slow.wait(0.001)
    slow.set()
    for thread in threads:
        thread.join()
    assert len(script.requests) == 40
