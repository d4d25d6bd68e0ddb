"""Each kind of object store is one row, and no other code checks the kind of a store."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lacuna
from lacuna.logstore.objects import (
    DirectoryStore,
    MemoryStore,
    StoreMetrics,
    StoreMisconfiguredError,
    bucket_url,
    check_url,
    folder_url,
    kind_of,
)
from lacuna.logstore.objects.directory import DIRECTORY
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.kind import StoreKind
from lacuna.logstore.objects.memory import MEMORY
from lacuna.logstore.objects.prices import AMAZON_S3
from lacuna.logstore.objects.s3_kind import S3
from lacuna.logstore.objects.url import (
    EXPORT_FORMS,
    FORMS,
    JOURNAL_FORMS,
    KINDS,
    SHARED_FORMS,
    folder_of,
)
from tests.doubles.keys import some_keys

SOURCES = Path(lacuna.__file__).parent
#: Whose URLs are no store's: the keys of tokens, secrets, SQLite's files.
OTHERS = {
    "agent/security/sasl/jwks.py",
    "base/client_security.py",
    "base/secret.py",
    "controlplane/journal/connections.py",
}

DECIDE = """
if url.startswith("s3://"): ...
if parts.scheme == "file": ...
if scheme in ("s3", "x"): ...
table = {"memory": 1}
url = f"file://{folder}"
match kind:
    case "s3": ...
isinstance(store, S3Store)
"""
SPEAK = '''
def f():
    """s3://BUCKET is described here."""
    fail("give s3://BUCKET/PREFIX, or a file")
client("s3")
'''


def decisions(tree: ast.AST) -> Iterator[int]:
    """Return the lines at which code depends on the kind of a store: on its scheme, a URL, or its class."""
    schemes = {kind.scheme for kind in KINDS.values()}
    prefixes = tuple(f"{scheme}:" for scheme in schemes)
    documented = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(prefixes) and node not in documented:
                yield node.lineno
        elif isinstance(node, ast.Compare | ast.MatchValue | ast.Dict | ast.Subscript):
            words = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            if schemes & {word for word in words if isinstance(word, str)}:
                yield node.lineno
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if names & {"DirectoryStore", "MemoryStore", "S3Store"}:
                yield node.lineno


def test_what_decides_is_found_and_what_speaks_is_not() -> None:
    assert sorted(set(decisions(ast.parse(DECIDE)))) == [2, 3, 4, 5, 6, 8, 9]
    assert list(decisions(ast.parse(SPEAK))) == []


def test_no_code_outside_the_rows_asks_which_kind_a_store_is() -> None:
    sources = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    rows = {name for name, source in sources.items() if "Final = StoreKind(" in source}
    assert len(rows) == len(KINDS)
    found = {
        f"{name}:{line}"
        for name in sources.keys() - rows - OTHERS
        for line in decisions(ast.parse(sources[name]))
    }
    assert not found


def test_each_form_is_shown_where_a_store_of_its_kind_may_be() -> None:
    for kind in (DIRECTORY, MEMORY, S3):
        assert kind.form in FORMS
        assert (kind.form in SHARED_FORMS) is (kind is not MEMORY)
        assert (kind.form in JOURNAL_FORMS) is (kind is S3)
        assert (kind.form in EXPORT_FORMS) is (kind is not MEMORY)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_form_of_a_kind_is_a_url_of_it(kind: StoreKind) -> None:
    form = kind.form
    check_url(form)
    assert kind_of(form) is kind


def test_only_a_folder_is_a_path(tmp_path: Path) -> None:
    assert folder_of(folder_url(tmp_path / "a b")) == str(tmp_path / "a b")
    assert folder_of("memory:") is None
    assert folder_of("s3://bucket/prefix") is None
    with pytest.raises(StoreMisconfiguredError, match="is not the URL of an object store"):
        folder_of("/data")


@pytest.mark.parametrize(
    ("bucket", "options", "url"),
    [
        ("b", {}, "s3://b"),
        ("s3://b/p", {"endpoint": "http://h:1"}, "s3://b/p?endpoint=http://h:1"),
        ("b/p#1", {"endpoint": None, "sse": "aws:kms"}, "s3://b/p%231?sse=aws:kms"),
    ],
)
def test_the_url_of_a_bucket(bucket: str, options: dict[str, str | None], url: str) -> None:
    assert bucket_url(bucket, **options) == url
    check_url(url)


def test_a_store_has_no_prices_unless_its_kind_has(tmp_path: Path) -> None:
    assert MemoryStore().metrics.prices is MEMORY.prices
    assert DirectoryStore(tmp_path).metrics.prices is DIRECTORY.prices


def test_an_encrypted_store_costs_what_the_requests_to_the_inner_one_cost() -> None:
    inner = MemoryStore()
    inner.metrics = StoreMetrics(7, AMAZON_S3)
    inner.metrics.count_second_attempt()
    store = EncryptedStore(inner, some_keys())
    store.put("k", [b"x"])
    store.get_all("k")
    sent = store.metrics.sent
    assert (sent.connections_kept, sent.second_attempts) == (7, 1)
    assert store.metrics.dollars() == inner.metrics.dollars() > AMAZON_S3.put_per_1000 / 1000
