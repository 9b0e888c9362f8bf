"""Pages that refresh themselves, in a real browser: figures, rates and sparklines; how often the server is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from endpoint.console.figures import Figures
from endpoint.monitoring.rate_history import RateHistory
from tests.endpoint.console.conftest import fill
from tests.endpoint.console.html import get, run
from tests.endpoint.live import NEAR, Live, live
from tests.parts.waiting import until


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as running:
        fill(running)
        yield running


@pytest.fixture
def page(browser: Browser, busy: Live) -> Iterator[Page]:
    context = browser.new_context(base_url=busy.url)
    yield context.new_page()
    context.close()


def test_the_list_shows_what_happens_and_new_queries(page: Page, busy: Live) -> None:
    page.goto("/console/queries")
    row = page.get_by_role("row").filter(has_text="near")
    expect(row.locator("[data-figure=rate]")).to_have_text("0", timeout=10_000)
    for time in range(4_000, 9_000, 1_000):
        busy.push(time).raise_for_status()
    emissions = busy.service.query_status("near")["emissions"]
    expect(row.locator("[data-figure=emissions]")).to_have_text(str(emissions), timeout=10_000)
    expect(row.locator("[data-figure=time]")).to_have_text("8000")
    expect(row.locator("[data-spark] polyline")).to_have_count(1)
    busy.register(NEAR.replace("near", "far")).raise_for_status()
    expect(page.get_by_role("link", name="far")).to_be_visible(timeout=10_000)
    busy.service.pause_query("near")
    expect(row.get_by_text("paused")).to_be_visible(timeout=10_000)


def test_the_overview_and_a_stream_show_how_much_arrives(page: Page, busy: Live) -> None:
    page.goto("/console/")
    elements = page.locator("[data-total='streams elements']")
    expect(elements.locator("b")).to_have_text("0", timeout=10_000)
    page.goto("/console/streams/taxis")
    expect(page.locator(".scroll[aria-label='The last elements: rows']")).to_contain_text("ex:t1")
    expect(page.locator("[data-figure=elements]")).to_have_text("4")
    busy.push(4_000).raise_for_status()
    expect(page.locator("[data-figure=elements]")).to_have_text("5", timeout=10_000)


def test_many_pages_read_the_figures_once(busy: Live) -> None:
    now, read = [100.0], []

    class Counted:
        """The service, and how often it was read."""

        def __getattr__(self, name: str) -> object:
            if name == "status_at_once":
                read.append(now[0])
            return getattr(busy.service, name)

    service: Any = Counted()
    figures = Figures(service, RateHistory(service, lambda: now[0]), lambda: now[0])
    bodies = {figures.body() for _ in range(5)}
    assert (len(bodies), len(read)) == (1, 1)
    now[0] += 1
    figures.body()
    assert len(read) == 2


def test_a_page_that_is_opened_shows_the_last_minutes_at_once(page: Page, busy: Live) -> None:
    found = busy.http.get("/console/figures?rates").json()
    found["rates"]["queries"]["near"] = [1.0, 2.5, 12]
    page.route("**/figures?rates", lambda route: route.fulfill(json=found))
    page.goto("/console/queries")
    row = page.get_by_role("row").filter(has_text="near")
    line = row.locator("[data-spark] polyline")
    expect(line).to_have_count(1)
    assert len((line.get_attribute("points") or "").split()) == 3
    expect(row.locator("td[title]")).to_have_attribute("title", "the last four minutes; at most 12 a second")


def test_a_query_that_waits_for_a_stream_says_so(page: Page, busy: Live) -> None:
    both = NEAR.replace("near", "both").replace(
        "WHERE {", "FROM NAMED WINDOW ex:v ON STREAM silent [RANGE 1s STEP 1s] WHERE {"
    )
    busy.register(both.replace("?zone ex:partOf ?city", "WINDOW ex:v { ?zone ex:partOf ?city }")).raise_for_status()
    busy.push(4_000).raise_for_status()
    page.clock.install()
    page.goto("/console/queries")
    waits = {name: page.locator(f"[data-query={name}] [data-figure=waits]") for name in ("near", "both")}

    def has_read_again() -> bool:
        with page.expect_response("**/figures*"):
            page.clock.run_for(2_000)
        return waits["both"].inner_text() == "waits for silent"

    until(has_read_again, "what it waits for", 20)
    expect(waits["near"]).to_have_text("")


def test_the_page_of_a_query_shows_what_it_waits_for_now(page: Page, busy: Live) -> None:
    busy.http.put("/streams/silent").raise_for_status()
    both = NEAR.replace("WHERE {", "FROM NAMED WINDOW ex:v ON STREAM silent [RANGE 1s STEP 1s] WHERE {")
    text = both.replace("near", "both").replace("?zone ex:partOf ?city", "WINDOW ex:v { ?zone ex:partOf ?city }")
    busy.register(text).raise_for_status()
    busy.push(4_000).raise_for_status()
    page.clock.install()
    page.goto("/console/queries/both")
    expect(page.get_by_role("heading", name="No emission yet: waiting for silent")).to_be_visible()
    expect(page.locator("#facts")).to_contain_text("stream silent: it has no time yet")
    busy.http.post("/streams/silent/heartbeat?timestamp=3500").raise_for_status()
    busy.http.post("/streams/silent/heartbeat?timestamp=9000").raise_for_status()

    def has_read_again() -> bool:
        with page.expect_response("**/queries/both?state="):
            page.clock.run_for(6_000)
        return "stream taxis: its time is 4000" in page.locator("#facts").inner_text()

    until(has_read_again, "what it waits for now", 20)
    expect(page.locator("#facts")).not_to_contain_text("stream silent:")
    expect(page.get_by_role("heading", name="No emission yet")).to_have_count(0)


def test_the_server_reads_rates_while_nobody_looks(busy: Live) -> None:
    rates: RateHistory = busy.server.config.app.app_state.rates  # type: ignore[union-attr]  # it is our application
    until(lambda: rates.known()["streams"].get("taxis"), "a rate of the stream")


def test_the_figures_are_those_of_the_server(busy: Live) -> None:
    found = busy.http.get("/console/figures").json()
    [query], [stream] = found["queries"], found["streams"]
    assert (query["query"], query["state"], query["runner"]) == ("near", "running", "inline")
    assert query["emissions"] == busy.service.query_status("near")["emissions"]
    assert (stream["stream"], stream["elements"], stream["time_ms"]) == ("taxis", 4, 3000)


def test_a_query_over_windows_is_asked_once_at_the_time_that_its_streams_have_reached(busy: Live) -> None:
    text = NEAR.replace("REGISTER RSTREAM near AS\n", "")
    page = run(busy, text)
    assert page.cells() == [["1", "ex:t1", "ex:z1", "ex:c1"]]
    assert "evaluated at 3000" in " ".join(element.shown for element in page.all("p"))
    assert run(busy, text, at="2600").cells() == []


def test_a_stream_shows_its_late_elements_and_for_whom_they_were_late(busy: Live) -> None:
    assert "Late elements" not in [heading.shown for heading in get(busy, "/streams/taxis").all("h2")]
    busy.push(1_600, "<http://ex/t9> <http://ex/in> <http://ex/z1> .").raise_for_status()
    page = get(busy, "/streams/taxis")
    [[time, triples, queries]] = page.cells(1)
    assert (time, queries) == ("1600 (1970-01-01T00:00:01Z)", "near")
    assert triples == "<http://ex/t9> <http://ex/in> <http://ex/z1> ."
    assert page.facts()["Retained now"].endswith("since 1000 (1970-01-01T00:00:01Z)")


def test_errors_are_on_one_page(busy: Live) -> None:
    page = get(busy, "/log")
    assert "No query has failed." in [element.shown for element in page.all("p")]
    assert "The application that embeds this console has the log." in [element.shown for element in page.all("p")]


def test_the_server_shows_what_is_retained_and_its_limits(busy: Live) -> None:
    facts = get(busy, "/server").facts()
    assert facts["Snapshots"] == f"0 to {busy.service.head()} can be queried"
    assert facts["of taxis"].endswith("since 1000 (1970-01-01T00:00:01Z)")
    assert facts["On disk"].endswith(("KiB", "MiB"))
    assert facts["Retained for"].startswith("snapshots 5 min, emissions 1 h")
    assert facts["Time of a query or update"] == "300 s"
    assert facts["Runner"] == "inline: this service was started with the inline engine"


def test_the_operators_of_a_query_are_measured_while_somebody_looks(page: Page, busy: Live) -> None:
    page.goto("/console/queries/near")
    page.locator("summary", has_text="Operators: rows, time and memory").focus()
    page.keyboard.press("Enter")
    table = page.get_by_role("region", name="Operators, evaluated when windows close")
    expect(table).to_be_visible(timeout=10_000)
    expect(page.get_by_text("0 times in the")).to_be_visible()
    busy.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c9> }")
    for time in range(4_000, 6_000, 500):
        busy.push(time).raise_for_status()
    store = table.get_by_role("row").filter(has_text="partOf")
    expect(store.locator("td").nth(1)).not_to_have_text("0", timeout=10_000)
    expect(store.locator("td").nth(3)).to_contain_text(" ms")
    expect(store.locator("td").nth(5)).to_contain_text("KiB")


def test_a_page_says_who_reads_and_what_happened(page: Page, busy: Live) -> None:
    busy.service.pause_query("near")
    busy.service.resume_query("near")
    with busy.http.stream(
        "GET", "/queries/near/results", headers={"accept": "text/event-stream", "user-agent": "me/1"}
    ):
        page.goto("/console/subscribers")
        row = page.get_by_role("row").filter(has_text="me/1")
        expect(row).to_contain_text("an event stream")
        expect(row).to_contain_text("reading")
    expect(row).to_contain_text("ago", timeout=15_000)
    page.goto("/console/log")
    expect(page.get_by_role("row").filter(has_text="resumed")).to_contain_text("near")
    page.goto("/console/queries/near")
    expect(page.get_by_role("listitem").filter(has_text="resumed")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="paused")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="me/1")).to_be_visible()


def test_the_last_elements_come_with_their_times(page: Page, busy: Live) -> None:
    page.goto("/console/streams/taxis")
    elements = page.get_by_role("region", name="The last elements: rows")
    expect(elements.locator("tbody tr").first).to_contain_text("1970-01-01 00:00:03")
    busy.push(9_000).raise_for_status()
    expect(elements.locator("tbody tr").first).to_contain_text("1970-01-01 00:00:09", timeout=15_000)
