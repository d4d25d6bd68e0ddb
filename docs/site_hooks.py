"""Adds to the site (mkdocs.yml) the pages at the top of the repository, and the lists of decisions and commands.

Pages link to files of the repository. On the site, the pages at the top lie beside the others, and a link to a source
file becomes plain text.
"""

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
#: The pages at the top, and what they are called on the site, where README.md would be the first page.
TOP: Final = {
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "README.md": "overview.md",
    "SECURITY.md": "reporting.md",  # security.md is another page, and file systems may ignore case
}
_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the decisions in the navigation by number, and the commands by name."""
    _fill(config, "Contributing", "Decisions", "adr")
    _fill(config, "Reference", "Each command", "commands")
    return config


def _fill(config: MkDocsConfig, section: str, entry: str, folder: str) -> None:
    """Puts the pages of a folder of docs/ into an entry of the navigation."""
    pages = sorted(ROOT.glob(f"docs/{folder}/*.md"))
    items = next(part[section] for part in config.nav or [] if section in part)
    place = next(item for item in items if isinstance(item, dict) and entry in item)
    place[entry] = [{_title(page): f"{folder}/{page.name}"} for page in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages at the top of the repository."""
    for name, on_site in TOP.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, on_site, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Makes links of the repository links of the site."""
    source = page.file.src_uri
    is_top = source in TOP.values()
    folder = ROOT if is_top else (ROOT / "docs" / source).parent
    place = Path(source).parent

    def changed(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = (folder / target).resolve()
        if path.is_relative_to(ROOT / "docs"):
            on_site = path.relative_to(ROOT / "docs")
        elif path.parent == ROOT and path.name in TOP:
            on_site = Path(TOP[path.name])
        else:
            return text if path.exists() else found[0]
        if path.is_dir():  # of decisions, the first
            on_site = on_site / min(each.name for each in path.glob("*.md"))
        up = "../" * len(place.parts)
        return f"[{text}]({up}{on_site.as_posix()}{anchor})"

    markdown = _LINK.sub(changed, markdown)
    return markdown.replace("](docs/", "](") if is_top else markdown  # of pictures


def _title(page: Path) -> str:
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    assert found is not None, page
    return found[1].replace("`", "")
