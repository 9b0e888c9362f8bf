"""What MkDocs is told beyond `mkdocs.yml`: the navigation, and pages that lie beside docs/.

The navigation is the table of docs/README.md: a bold row begins a shelf, each link of the rows below is a page of it. A
link to a folder stands for all its pages. README.md, CONTRIBUTING.md and CHANGELOG.md are pages as well; links to
them, and to files of the code, are written as the site needs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Pages that lie beside docs/, and their names in the site.
OUTSIDE = {"README.md": "start.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    shelves: list[dict[str, Any]] = [{"Home": "README.md"}]
    for line in (DOCS / "README.md").read_text().splitlines():
        if shelf := re.fullmatch(r"\| \*\*(.+?)\*\* \|.*", line):
            shelves.append({shelf[1].capitalize(): []})
        elif line.startswith("|") and len(shelves) > 1:
            pages = next(iter(shelves[-1].values()))
            pages += [entry for found in _LINK.finditer(line) for entry in _entries(found[1][1:-1], found[2])]
    config.nav = shelves
    return config


def _entries(title: str, target: str) -> list[dict[str, Any]]:
    """A page, or the pages of a folder."""
    path = (DOCS / target).resolve()
    if path.is_dir():
        return [{title: [str(each.relative_to(DOCS)) for each in sorted(path.glob("*.md"))]}]
    return [{title: _in_site(path)}]


def _in_site(path: Path) -> str:
    if path.is_relative_to(DOCS):
        return str(path.relative_to(DOCS))
    return OUTSIDE[str(path.relative_to(ROOT))]


def on_files(files: Any, config: Any) -> Any:
    for outside, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / outside).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = next((ROOT / outside for outside, name in OUTSIDE.items() if name == page.file.src_uri), None)
    folder = (source or DOCS / page.file.src_uri).parent
    depth = "../" * page.file.src_uri.count("/")

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if not target or ":" in target:
            return found[0]
        path = (folder / target).resolve()
        if path.is_dir() and path.is_relative_to(DOCS):
            first = min(path.glob("*.md"), default=None)
            return text[1:-1] if first is None else f"{text}({depth}{first.relative_to(DOCS)})"
        if path.is_relative_to(DOCS) or str(path.relative_to(ROOT)) in OUTSIDE:
            return f"{text}({depth}{_in_site(path)}{anchor})"
        if not path.exists():
            return found[0]  # MkDocs says that it is broken
        return f"{text[1:-1]} (`{path.relative_to(ROOT)}`)"  # a file of the code, which the site does not have

    parts, last = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(link, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, _LINK.sub(link, markdown[last:])])
