"""Each kind of journal is one row, and no other code checks the kind of a journal."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lacuna
from lacuna.base.errors import UserError
from lacuna.controlplane.journal.kinds import KINDS, SHARED_KINDS, forms, kind_of, shared_kind_of
from lacuna.controlplane.journal.kinds.bucket import IN_BUCKET
from lacuna.controlplane.journal.kinds.kind import JournalKind
from lacuna.controlplane.journal.kinds.postgresql import POSTGRESQL
from lacuna.controlplane.journal.kinds.sqlite import SQLITE

SOURCES = Path(lacuna.__file__).parent
#: Where `bucket` is the place from which Spark's jobs read metadata, and no journal.
OTHERS = {"pipeline/metadata/__init__.py"}


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("sqlite:data", SQLITE),
        ("postgresql://user@host/database", POSTGRESQL),
        ("postgres://host", POSTGRESQL),
        ("bucket", IN_BUCKET),
    ],
)
def test_an_address_names_one_kind(address: str, kind: JournalKind) -> None:
    assert [each for each in KINDS if each.is_named(address)] == [kind] == [kind_of(address)]
    if kind in SHARED_KINDS:
        assert shared_kind_of(address) is kind
    else:
        with pytest.raises(UserError, match="not a journal that several control planes can share"):
            shared_kind_of(address)


def test_an_error_says_how_addresses_are_written() -> None:
    with pytest.raises(UserError) as refused:
        kind_of("data")
    assert str(refused.value) == f"'data' is not a journal: write {forms()}"
    assert all(each.form in forms() for each in KINDS)
    assert forms((POSTGRESQL, SQLITE)) == f"{POSTGRESQL.form} or {SQLITE.form} ({SQLITE.about})"


def decisions(tree: ast.AST) -> Iterator[int]:
    """Return the lines at which code compares something with the address of a kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            compared = node.args if node.func.attr in ("startswith", "removeprefix") else []
        else:
            continue
        for each in compared:
            names = {found.id for found in ast.walk(each) if isinstance(found, ast.Name)}
            texts = {found.value for found in ast.walk(each) if isinstance(found, ast.Constant)}
            if names & {"BUCKET", "POSTGRESQL"} or any(map(_is_address, texts)):
                yield node.lineno


def _is_address(text: object) -> bool:
    return isinstance(text, str) and any(each.is_named(text) for each in KINDS)


def test_nothing_else_asks_for_the_kind_of_a_journal() -> None:
    found = {
        path.relative_to(SOURCES).as_posix(): lines
        for path in SOURCES.rglob("*.py")
        if (lines := list(decisions(ast.parse(path.read_text(encoding="utf-8")))))
    }
    rows = {path for path in found if path.startswith("controlplane/journal/kinds/")}
    assert rows
    assert found.keys() - rows == OTHERS
    assert list(
        decisions(ast.parse("if url == BUCKET: ...\nif url.startswith('postgres://'): ..."))
    )
