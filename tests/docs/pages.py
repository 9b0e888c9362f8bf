"""The documentation as data: its pages, their headings, links, tables and code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def prose(self) -> str:
        """The text without its code blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self) -> list[Block]:
        text = self.text
        return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in _FENCE.finditer(text)]

    def headings(self) -> list[str]:
        return [m[2].strip() for m in _HEADING.finditer(self.prose)]

    def anchors(self) -> set[str]:
        """As GitHub makes them."""
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings()}

    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def section(self, heading: str) -> str:
        """From a heading to the next one of its rank or a higher one."""
        start = re.search(rf"^(#+) {re.escape(heading)}$", self.text, re.MULTILINE)
        assert start is not None, f"{self.name} has no heading {heading!r}"
        rest = self.text[start.end() :]
        end = re.search(rf"^#{{1,{len(start[1])}}} ", _without_code(rest), re.MULTILINE)
        return rest[: end.start()] if end else rest


def rows(text: str) -> list[list[str]]:
    """The cells of all tables in a text, without heads and rules; `\\|` is a bar in a cell."""
    found = []
    lines = [(m[1], m.start()) for m in _ROW.finditer(text)]
    rules = {i for i, (line, _) in enumerate(lines) if set(line) <= set("-|: ")}
    for i, (line, _) in enumerate(lines):
        if i not in rules and i + 1 not in rules:
            found.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)])
    return found


def codes(text: str) -> list[str]:
    """What is marked as code in a sentence or a cell; examples in blocks list nothing."""
    return re.findall(r"`([^`]+)`", _FENCE.sub("", text))


def _without_code(text: str) -> str:
    """The same length, with code blocks blanked: a comment of a shell is no heading."""
    return _FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def pages() -> list[Page]:
    """All that is for readers."""
    return [Page(path) for path in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])]
