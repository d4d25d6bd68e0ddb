"""Tests that docs/glossary.md is sorted and uses the words of the code, and that docstrings avoid empty words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: These only point elsewhere: whoever reads the code sees no more than its name.
SAYS_NOTHING = re.compile(r"(Nothing|None|See \S+|As .{1,40} says)\.")


def glossary() -> dict[str, str]:
    rows = re.findall(
        r"^\| (.+?) \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE
    )
    assert rows[0] == ("word", "what it is")
    return dict(rows[1:])


def modules() -> Iterator[Path]:
    return (ROOT / "lacuna").rglob("*.py")


def docstrings() -> Iterator[tuple[str, str]]:
    """Return the docstrings that contain empty words, by file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in modules():
        code = path.read_text()
        if SAYS_NOTHING.search(code) is None:
            continue  # to parse all of the code takes a second
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(ROOT)} {getattr(node, 'name', '')}", text


def test_it_is_alphabetical_and_has_each_word_once() -> None:
    page = (ROOT / "docs/glossary.md").read_text()
    words = re.findall(r"^\| ([^|]+?) \| ", page, re.MULTILINE)[1:]
    assert len(words) > 40
    assert words == sorted(set(words))


def test_its_words_are_those_of_the_code() -> None:
    code = " ".join(path.read_text() for path in modules()).lower()
    spelt = {word: word.replace(" ", r"[_\s]*") for word in glossary()}
    assert [word for word, form in spelt.items() if not re.search(rf"\b{form}", code)] == []


def test_a_line_does_not_explain_a_word_by_itself() -> None:
    for word, text in glossary().items():
        assert not re.search(rf"\b{re.escape(word)}\b", text.split(",")[0]), word


def test_docstrings_say_something() -> None:
    assert [where for where, text in docstrings() if SAYS_NOTHING.fullmatch(text)] == []
