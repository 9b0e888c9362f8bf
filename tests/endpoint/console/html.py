"""A page as a test reads it: its elements with their attributes and texts, its forms and their fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from tests.endpoint.live import Live

_VOID = frozenset(("meta", "link", "input", "br", "img", "path", "rect"))


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def inside(self, tag: str) -> bool:
        return self.parent is not None and (self.parent.tag == tag or self.parent.inside(tag))

    @property
    def shown(self) -> str:
        return " ".join((self.text + " " + " ".join(child.shown for child in self.children)).split())


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        parent = self._open[-1] if self._open else None
        element = Element(tag, {name: value or "" for name, value in attrs}, parent)
        self.elements.append(element)
        if parent is not None:
            parent.children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open and self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].text += data

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def cells(self, table: int = 0) -> list[list[str]]:
        """The rows of the first table, or of a later one, without its head."""
        bodies = self.all("tbody")
        if table >= len(bodies):
            return []
        return [[cell.shown for cell in row.children] for row in bodies[table].children]

    def facts(self) -> dict[str, str]:
        """What lists of terms and values say."""
        pairs = zip(self.all("dt"), self.all("dd"), strict=True)
        return {term.shown: value.shown for term, value in pairs}


def get(server: Live, path: str, status: int = 200) -> Page:
    answer = server.http.get("/console" + path)
    assert answer.status_code == status, answer.text
    return Page(answer.text)


def post(server: Live, path: str, status: int = 200, **data: str) -> Page:
    """As a browser that follows to the next page."""
    answer = server.http.post("/console" + path, data=data, follow_redirects=True)
    assert answer.status_code == status, answer.text
    return Page(answer.text)


def run(server: Live, text: str, status: int = 200, **data: str) -> Page:
    """What the query page shows when its button is pressed."""
    return post(server, "/query", status, query=text, **data)


def answered(page: Page) -> str:
    """What the page tells of what was done, or of what went wrong."""
    return " ".join(e.shown for e in page.elements if "notice" in e.attributes.get("class", "").split())
