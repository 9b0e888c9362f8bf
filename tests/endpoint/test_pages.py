"""The query page and the page of the interface, in a real browser that reaches nothing but the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Request

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


def test_the_query_page_runs_a_query_without_a_network(server: Live, page: Page, elsewhere: list[str]) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(server.url + "/sparql")
    page.locator(".yasqe_queryButton").first.click()
    cell = page.locator(".yasr_results td", has_text="http://ex/z1").first
    cell.wait_for(timeout=15_000)
    assert page.locator(".tabsList .tab").count() >= 4  # the examples
    page.get_by_role("link", name="console").click()
    page.get_by_role("heading", name="Overview").wait_for()
    assert (faults, elsewhere) == ([], [])


def test_the_page_of_the_interface_shows_every_route_and_tries_one(
    server: Live, page: Page, elsewhere: list[str]
) -> None:
    page.goto(server.url + "/docs")
    ping = page.locator("#operations-Operation-get_server_ping")
    ping.wait_for(timeout=15_000)
    routes = server.http.get("/openapi.json").json()["paths"]
    assert page.locator(".opblock").count() == sum(len(methods) for methods in routes.values())
    ping.locator(".opblock-summary-control").click()
    ping.get_by_role("button", name="Try it out").click()
    ping.get_by_role("button", name="Execute").click()
    ping.locator(".live-responses-table .microlight", has_text="pong").first.wait_for(timeout=15_000)
    assert elsewhere == []
