"""One server with something in it: two graphs, a stream, a query that has said something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page

from endpoint.console.assets import has_libraries
from tests.endpoint.live import Live, live
from tests.parts.browser import browser as real_browser
from tests.parts.missing import missing

DATA = """INSERT DATA {
  <http://ex/z1> <http://ex/partOf> <http://ex/c1> ; <http://ex/rooms> 12 .
  <http://ex/z1> <http://ex/name> "Zürich"@de, "<b>bold</b>" .
  GRAPH <http://ex/g> { _:x <http://ex/partOf> <http://ex/c1>, <http://ex/c2> }
}"""


def fill(server: Live) -> None:
    server.update(DATA)
    server.http.put("/streams/taxis").raise_for_status()
    server.register().raise_for_status()
    for time in (1000, 1500, 2600, 3000):
        server.push(time).raise_for_status()


EDITOR = "SPARQL query or update"


def editor(page: Page, label: str = EDITOR) -> Locator:
    """The editor, once the page has made it of the field of the form."""
    if not has_libraries():
        missing("EDITOR", "python -m endpoint.console.web")
    page.locator("body[data-ready]").wait_for()
    return page.get_by_label(label, exact=True)


def write(page: Page, text: str, label: str = EDITOR) -> None:
    """Writes a text into the editor as somebody who types it."""
    editor(page, label).click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("store")) as running:
        fill(running)
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with real_browser() as running:
        yield running
