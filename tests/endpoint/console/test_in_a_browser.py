"""The pages in a real browser: how they look on a laptop and on a phone, in light and dark, and what they do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.endpoint.console.conftest import editor, fill, write
from tests.endpoint.live import NEAR, TAXI_IN_ZONE, Live, live
from tests.parts.waiting import until

PATHS = (
    "/",
    "/query",
    "/query?query=SELECT * { ?s ?p ?o }",
    "/query?query=SELECT * { ?s ?p",
    "/explain?query=ASK { ?s ?p ?o }",
    "/resource?iri=http://ex/z1",
    "/graphs",
    "/upload",
    "/streams",
    "/streams/taxis",
    "/queries",
    "/queries/near",
    "/operators/near",
    "/subscribers",
    "/subscribers?query=near",
    "/sources",
    "/server",
    "/log",
    "/nowhere",
)
LAPTOP, PHONE = (1280, 800), (390, 844)

#: Every text on the page with the contrast to what is behind it, by the formula of WCAG 2.
CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colour = (css) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(colour(getComputedStyle(each).backgroundColor));
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const v = c[i] / 255; return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (['SCRIPT', 'NOSCRIPT'].includes(element.tagName) || element.closest('svg')) continue;
    const back = behind(element), front = over(colour(getComputedStyle(element).color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), texts.currentNode.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(params=[(size, scheme) for size in (LAPTOP, PHONE) for scheme in ("light", "dark")], ids=str)
def looked_at(request: pytest.FixtureRequest, browser: Browser, server: Live) -> Iterator[Page]:
    (width, height), scheme = request.param
    context = browser.new_context(base_url=server.url, viewport={"width": width, "height": height}, color_scheme=scheme)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(browser: Browser, server: Live) -> Iterator[Page]:
    context = browser.new_context(base_url=server.url, viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    yield context.new_page()
    context.close()


def test_every_page_fits_the_screen_can_be_read_and_says_no_error(looked_at: Page) -> None:
    answered: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "status of 40" not in message.text:  # two pages are told as errors
            answered.append(message.text)

    looked_at.on("console", hear)
    looked_at.on("pageerror", lambda error: answered.append(str(error)))
    for path in PATHS:
        looked_at.goto("/console" + path)
        assert looked_at.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        contrasts = looked_at.evaluate(CONTRASTS)
        assert contrasts, path
        assert min(contrasts)[0] >= 4.5, (path, min(contrasts))
        assert not answered, (path, answered)
    for text in ("SELECT * { ?s ?p ?o }", "SELECT * { ?s ?p"):
        looked_at.goto("/console/query")
        write(looked_at, text)
        looked_at.get_by_role("button", name="Run").click()
        expect(looked_at.locator("[data-outcome] .notice, [data-result]")).to_be_visible()
        assert looked_at.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, text
        assert min(looked_at.evaluate(CONTRASTS))[0] >= 4.5, text
        assert not answered, (text, answered)


def test_on_a_phone_each_figure_of_a_query_is_on_the_screen(browser: Browser, tmp_path: Path) -> None:
    width, height = PHONE
    with live(tmp_path) as server:
        fill(server)
        server.service.pause_query("near")
        server.service.resume_query("near")
        page = browser.new_context(base_url=server.url, viewport={"width": width, "height": height}).new_page()
        for path, cells in (
            ("/queries", "tr[data-query] td[data-figure=lag], tr[data-query] td:has(.waits)"),
            ("/log", "section[aria-labelledby=past] tbody td:last-child"),
        ):
            page.goto("/console" + path)
            found = [cell.bounding_box() for cell in page.locator(cells).all()]
            assert found, path
            assert all(box is not None and box["x"] + box["width"] <= width for box in found), (path, found)
        page.context.close()


def test_the_city_can_be_played_from_the_first_screen(looked_at: Page) -> None:
    looked_at.goto("/console/")
    expect(looked_at.get_by_role("button", name="Play a city")).to_be_in_viewport()


def test_light_and_dark_differ(browser: Browser, server: Live) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        context = browser.new_context(base_url=server.url, color_scheme=scheme)  # type: ignore[arg-type]  # one of both
        page = context.new_page()
        page.goto("/console/")
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert len(grounds) == 2


def test_whoever_has_only_a_keyboard_sees_where_he_is(page: Page) -> None:
    page.goto("/console/query")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    for _ in range(12):
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
        page.keyboard.press("Tab")


def test_a_query_is_run_with_the_keyboard_and_its_rows_are_a_table(page: Page) -> None:
    page.goto("/console/query")
    write(page, "PREFIX ex: <http://ex/>\nSELECT ?o { ex:z1 ex:rooms ?o }")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("cell", name="12")).to_be_visible()
    expect(page.get_by_text("1 row · ")).to_be_visible()
    page.get_by_label("as", exact=True).select_option("JSON")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text('"bindings"')).to_be_visible()


def test_an_error_puts_the_caret_where_it_is(page: Page) -> None:
    page.goto("/console/query")
    text = "SELECT *\n{ ?s ?p ?o\n  FILTER(?o >) }"
    write(page, text)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("line 3, column 14")
    expect(editor(page)).to_be_focused()
    page.keyboard.insert_text("|")
    page.wait_for_function(
        "text => document.querySelector('[data-editor]').value === text", arg=text.replace(") }", "|) }")
    )


def test_an_example_fills_the_editor(page: Page) -> None:
    page.goto("/console/query")
    editor(page)
    page.get_by_role("link", name="Is there any triple?").click()
    expect(editor(page)).to_have_text("ASK { ?s ?p ?o }")


def test_a_field_that_belongs_to_a_choice_is_shown_with_it(page: Page) -> None:
    page.goto("/console/streams")
    predicates = page.get_by_label("Predicates, one IRI on each line")
    expect(predicates).to_be_hidden()
    page.get_by_label("Stored permanently").select_option("triples of some predicates")
    expect(predicates).to_be_visible()


def test_naming_a_graph_chooses_it(page: Page) -> None:
    page.goto("/console/upload")
    page.get_by_label("IRI of the graph").fill("http://ex/h")
    expect(page.get_by_label("the graph named")).to_be_checked()


def test_a_file_is_uploaded_looked_at_and_dropped(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "cities.ttl"
    file.write_text("<http://ex/bern> <http://ex/name> 'Bern' .")
    with live(tmp_path / "store") as server:
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/upload")
        other = tmp_path / "more.nt"
        other.write_text("<http://ex/bern> <http://ex/river> <http://ex/aare> .")
        page.get_by_label("Files", exact=True).set_input_files([file, other])
        page.get_by_label("IRI of the graph").fill("http://ex/cities")
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("status").first).to_contain_text("had 0 triples and now has 2")
        assert server.service.head() == 1, "all files are in one snapshot"
        row = page.get_by_role("row").filter(has_text="http://ex/cities")
        row.get_by_role("link", name="Browse").click()
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("cell", name="Bern", exact=True)).to_be_visible()
        page.goto("/console/graphs")
        row.get_by_text("Drop").first.click()
        row.get_by_role("button", name="Drop").click()
        expect(page.get_by_text("There are no named graphs.")).to_be_visible()
        page.context.close()


def test_what_a_query_says_arrives_while_one_watches(browser: Browser, tmp_path: Path) -> None:
    with live(tmp_path) as server:
        fill(server)
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/queries/near")
        expect(page.get_by_text("connected", exact=True)).to_be_visible()
        log = page.get_by_role("listitem").filter(has_text="#")
        before = server.service.query_status("near")["emissions"]
        expect(log).to_have_count(before)
        server.push(9000).raise_for_status()  # windows close that the taxi was in
        after = server.service.query_status("near")["emissions"]
        assert after > before
        expect(log.first).to_contain_text(f"#{after}")
        expect(page.locator(".chart canvas")).to_be_visible()
        page.get_by_role("button", name="Pause the view").click()
        server.push(10_000).raise_for_status()
        page.get_by_role("button", name="Continue the view").click()
        expect(log.first).to_contain_text(f"#{server.service.query_status('near')['emissions']}")
        assert server.service.status()["subscriptions"] >= 1  # a listener of the HTTP routes: no page holds a thread
        page.context.close()


def test_the_page_of_a_query_goes_back_in_time(browser: Browser, tmp_path: Path) -> None:
    with live(tmp_path) as server:
        fill(server)
        for time in range(4000, 9001, 500):
            server.push(time).raise_for_status()
        last = server.service.query_status("near")["emissions"]
        assert last > 60
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/queries/near")
        log = page.get_by_role("listitem").filter(has_text="#")
        expect(log.first).to_contain_text(f"#{last}")
        page.get_by_label("Back in time").fill("12")
        expect(log.first).to_contain_text("#12")
        expect(log).to_have_count(12)
        expect(page.get_by_text(f"emissions 1 to 12 of {last}")).to_be_visible()
        server.push(9500).raise_for_status()  # what arrives meanwhile does not disturb
        now = server.service.query_status("near")["emissions"]
        expect(page.get_by_text(f"emissions 1 to 12 of {now}")).to_be_visible()
        expect(log.first).to_contain_text("#12")
        page.get_by_role("button", name="Back to now").click()
        expect(log.first).to_contain_text(f"#{now}")
        expect(page.get_by_role("button", name="Back to now")).to_be_hidden()
        page.context.close()


#: Notes each text that is drawn into a picture: from where to where, and at which height.
DRAWN = """
  const draw = CanvasRenderingContext2D.prototype.fillText;
  window.drawn = new Map();
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const { e, f } = this.getTransform(), width = this.measureText(text).width;
    if (/^\\d\\d:\\d\\d/.test(text)) window.drawn.set(text, [x + e - width / 2, x + e + width / 2]);
    return draw.apply(this, arguments);
  };"""


def test_the_times_below_a_chart_can_be_read_and_its_legend_has_the_latest_values(
    browser: Browser, tmp_path: Path
) -> None:
    begin, text = 1_780_000_000_000, NEAR.replace("near", "minutes").replace("1s STEP 100ms", "30s STEP 30s")
    with live(tmp_path) as server:
        fill(server)
        server.http.put("/streams/later").raise_for_status()
        server.register(text.replace("taxis", "later")).raise_for_status()
        for place in range(12):
            server.service.push("later", TAXI_IN_ZONE.encode(), "text/turtle", timestamp=begin + place * 30_000)
        page = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 800}).new_page()
        page.add_init_script(DRAWN)
        page.goto("/console/queries/minutes")
        until(lambda: server.service.query_status("minutes")["emissions"] >= 11, "no emissions")
        last = server.service.query_status("minutes")["emissions"]
        expect(page.get_by_role("listitem").filter(has_text="#").first).to_contain_text(f"#{last}")
        expect(page.locator(".u-legend .u-value").last).to_have_text("1")
        page.evaluate("() => window.drawn.clear()")
        page.set_viewport_size({"width": 1190, "height": 800})
        page.wait_for_function("() => window.drawn.size > 1")
        labels = sorted(page.evaluate("() => [...window.drawn.values()]"))
        assert all(after[0] - before[1] >= 8 for before, after in pairwise(labels)), labels
        page.context.close()


def test_the_chart_is_of_a_number_that_changes(browser: Browser, tmp_path: Path) -> None:
    number = "SELECT ?zone (30 AS ?limit) (COUNT(?taxi) AS ?taxis)"
    text = NEAR.replace("near", "counted").replace("SELECT ?taxi ?zone ?city", number) + " GROUP BY ?zone"
    with live(tmp_path) as server:
        fill(server)
        server.register(text).raise_for_status()
        server.push(4000).raise_for_status()
        server.push(4050, TAXI_IN_ZONE.replace("t1", "t2")).raise_for_status()
        server.push(4300).raise_for_status()
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/queries/counted")
        expect(page.get_by_label("Chart of")).to_have_value("taxis")
        page.get_by_label("Chart of").select_option("limit")
        server.push(4600).raise_for_status()
        last = server.service.query_status("counted")["emissions"]
        expect(page.get_by_role("listitem").filter(has_text="#").first).to_contain_text(f"#{last}")
        expect(page.get_by_label("Chart of")).to_have_value("limit")  # chosen by hand
        page.context.close()


def test_what_a_construct_says_is_shown_as_rows_of_short_terms(browser: Browser, tmp_path: Path) -> None:
    template = 'CONSTRUCT { ?taxi ex:mean ?m ; ex:in ?zone ; ex:says "\\u00e9 \\"x\\"\\n"@fr }'
    text = NEAR.replace("near", "means").replace("SELECT ?taxi ?zone ?city", template)
    with live(tmp_path) as server:
        fill(server)
        server.register(text.replace("WHERE {", "WHERE { BIND (1 / 3 AS ?m)")).raise_for_status()
        server.push(9000).raise_for_status()
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/queries/means")
        page.get_by_role("button", name="Pause the view").click()
        server.push(9050).raise_for_status()
        page.get_by_role("button", name="Continue the view").click()
        server.push(9150).raise_for_status()
        table = page.get_by_role("region", name="The latest emission")
        expect(table.locator("tbody tr")).to_have_count(3)
        cells = {tuple(row.locator("td").all_inner_texts()) for row in table.locator("tbody tr").all()}
        assert {("ex:t1", "ex:mean", "0.333333…"), ("ex:t1", "ex:in", "ex:z1")} < cells
        assert ("ex:t1", "ex:says", 'é "x"') in {tuple(map(str.strip, row)) for row in cells}
        observed = page.get_by_text(str(server.service.query_status("means")["emissions"]), exact=True)
        expect(observed.first).to_be_visible()
        page.get_by_label("Chart of").select_option("object")
        expect(page.locator(".chart canvas")).to_be_visible()
        page.context.close()


def test_the_bar_says_which_snapshot_is_the_latest_now(browser: Browser, tmp_path: Path) -> None:
    with live(tmp_path) as server:
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/explain")
        expect(page.locator(".snapshot")).to_have_text("snapshot 0")
        server.update("INSERT DATA { <http://ex/a> <http://ex/p> 1 }")
        expect(page.locator(".snapshot")).to_have_text("snapshot 1", timeout=20_000)
        page.context.set_offline(True)
        expect(page.locator(".snapshot")).to_have_class("snapshot old", timeout=20_000)
        page.context.set_offline(False)
        expect(page.locator(".snapshot")).to_have_class("snapshot", timeout=20_000)
        page.context.close()


def test_the_whole_way_from_a_stream_to_a_live_answer_needs_no_other_tool(browser: Browser, tmp_path: Path) -> None:
    with live(tmp_path, token="s3cret") as server:
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/streams")
        page.get_by_label("Name or IRI").fill("taxis")
        page.get_by_role("button", name="Create").click()
        with page.context.expect_page() as opened:
            page.get_by_role("alert").get_by_role("link", name="Enter the token").click()
        opened.value.get_by_label("Token").fill("s3cret")
        opened.value.get_by_role("button", name="Sign in").click()
        expect(opened.value.get_by_text("You are signed in and may make changes.")).to_be_visible()
        expect(page.get_by_label("Name or IRI")).to_have_value("taxis")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="taxis")).to_be_visible()
        page.goto("/console/query")
        write(page, "INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Snapshot 2 contains the change")).to_be_visible()
        page.goto("/console/queries")
        write(page, NEAR, "REGISTER text, or a query over windows")
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("heading", name="near")).to_be_visible()
        page.goto("/console/streams/taxis")
        page.get_by_label("RDF", exact=True).fill(TAXI_IN_ZONE)
        page.get_by_label("Time", exact=True).fill("950")
        page.get_by_role("button", name="Push").click()
        expect(page.get_by_text("1 element accepted")).to_be_visible()
        page.get_by_label("New time of the stream").fill("1000")
        page.get_by_role("button", name="Send").click()
        page.get_by_role("link", name="near").click()
        expect(page.get_by_role("heading", name="Emission 1 at 1000")).to_be_visible()
        expect(page.get_by_role("region", name="The latest emission")).to_contain_text("ex:t1")
        page.context.close()


def test_where_reading_is_closed_whoever_has_signed_in_sees_what_a_query_says(browser: Browser, tmp_path: Path) -> None:
    with live(tmp_path, token="t0ken", read_token="r3ad") as server:
        server.http.headers["authorization"] = "Bearer t0ken"
        fill(server)
        page = browser.new_context(base_url=server.url).new_page()
        page.goto("/console/queries/near")
        page.get_by_label("Token").fill("r3ad")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("may read")).to_be_visible()
        page.goto("/console/queries/near")
        expect(page.get_by_text("connected", exact=True)).to_be_visible()
        expect(page.get_by_role("region", name="The latest emission")).to_contain_text("ex:t1")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.context.close()
