"""The query page and the page of the interface, in a real browser that reaches nothing but the server."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Request, expect

from tests.endpoint.live import Live
from tests.parts.browser import browser


@pytest.fixture
def elsewhere() -> list[str]:
    """Addresses that a page asked for and that are not the server's."""
    return []


@pytest.fixture
def page(server: Live, elsewhere: list[str]) -> Iterator[Page]:
    def note(request: Request) -> None:
        if not request.url.startswith((server.url, "data:", "blob:")):
            elsewhere.append(request.url)

    with browser() as running:
        opened = running.new_page(viewport={"width": 1200, "height": 800})
        opened.on("request", note)
        yield opened


def test_the_query_page_waits_for_the_button_without_a_network(server: Live, page: Page, elsewhere: list[str]) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(server.url + "/sparql#query=" + quote("SELECT ?o { <http://ex/a> <http://ex/says> ?o }"))
    expect(page.get_by_label("SPARQL query or update")).to_contain_text("ex/says")
    expect(page.get_by_text("This text comes from the link that you opened")).to_be_visible()
    assert page.get_by_role("cell").count() == 0
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("cell", name="zwei")).to_be_visible()
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="all rows from the endpoint").click()
    opened.value.wait_for_load_state()
    assert opened.value.url == server.url + "/sparql"
    assert "zwei" in opened.value.content()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("heading", name="Overview").wait_for()
    assert (faults, elsewhere) == ([], [])


def test_the_page_of_the_interface_shows_every_route_and_tries_one(
    server: Live, page: Page, elsewhere: list[str]
) -> None:
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(server.url + "/docs")
    ping = page.locator("#operations-Operation-get_server_ping")
    ping.wait_for(timeout=15_000)
    routes = server.http.get("/openapi.json").json()["paths"]
    assert page.locator(".opblock").count() == sum(len(methods) for methods in routes.values())
    ping.locator(".opblock-summary-control").click()
    ping.get_by_role("button", name="Try it out").click()
    ping.get_by_role("button", name="Execute").click()
    ping.locator(".live-responses-table .microlight", has_text="pong").first.wait_for(timeout=15_000)
    assert (faults, elsewhere) == ([], [])
