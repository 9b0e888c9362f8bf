"""The query page in a real browser: the editor, what it says while one types, and the result in its forms."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.endpoint.console.conftest import editor, write
from tests.endpoint.live import NEAR, Live, live

COUNTS = """SELECT ?s (SUM(?x) AS ?n) {
  VALUES (?s ?x) { (<http://ex/a> 1) (<http://ex/b> 30) (<http://ex/c> 4) (<http://ex/a> 1) }
} GROUP BY ?s"""


@pytest.fixture
def context(browser: Browser, server: Live) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=server.url, permissions=["clipboard-read", "clipboard-write"])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto("/console/query")
    editor(page)
    return page


def text_of(page: Page) -> str:
    return str(page.locator("[data-editor]").evaluate("(area) => area.value"))


def test_an_error_is_underlined_where_it_is(page: Page) -> None:
    write(page, "SELECT * { ?s ?p ?o FILTER(?o > ) }")
    expect(page.locator(".cm-lintRange-error")).to_have_text(")")
    page.locator(".cm-lintRange-error").hover()
    expect(page.locator(".cm-diagnostic")).to_contain_text("expected")
    write(page, "SELECT * { ?s ?p ?o }")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)


def test_windows_are_evaluated_at_a_time_that_a_slider_chooses(page: Page) -> None:
    write(page, NEAR.replace("REGISTER RSTREAM near AS\n", ""))
    slider = page.get_by_label("Times whose elements are retained: 2000 to 3000")
    page.get_by_text("Query an older snapshot").click()
    expect(slider).to_be_visible()
    slider.fill("2600")
    expect(page.get_by_label("Time", exact=True)).to_have_value("2600")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("evaluated at 2600")).to_be_visible()
    slider.fill("3000")
    expect(page.get_by_label("Time", exact=True)).to_have_value("")  # the time that the stream has reached
    write(page, "SELECT * { ?s ?p ?o }")
    expect(slider).to_be_hidden()


def test_words_have_the_colours_of_what_they_are(page: Page) -> None:
    write(page, NEAR)

    def colour(word: str) -> str:
        script = "(word) => getComputedStyle(word).color"
        return str(page.locator(".cm-line span", has_text=word).first.evaluate(script))

    assert len({colour(word) for word in ("SELECT", "WINDOW", "?taxi", "<http://ex/>")}) == 4


def test_a_text_is_there_again_after_back_and_a_reload(page: Page) -> None:
    text = "SELECT ?s ?o { ?s <http://ex/partOf> ?o }"
    write(page, text)
    page.get_by_role("button", name="Run").click()
    page.locator("[data-result] a.term").first.click()
    expect(page.get_by_role("heading", name="Its triples")).to_be_visible()
    page.go_back()
    expect(editor(page)).to_have_text(text)
    page.reload()
    expect(editor(page)).to_have_text(text)
    page.goto("/console/query?query=ASK {}")
    expect(editor(page)).to_have_text("ASK {}")
    expect(page.get_by_text("This text comes from the link")).to_be_visible()
    expect(page.locator("[data-result]")).to_have_count(0)


def test_only_words_that_may_follow_are_offered(page: Page) -> None:
    write(page, "SELECT * { ?s ?p ?o } ")
    page.keyboard.type("L")
    offered = page.locator(".cm-tooltip-autocomplete li")
    expect(offered.first).to_contain_text("LIMIT")
    assert not {"LOAD", "LATENESS", "LANG("} & {each.split("keyword")[0].strip() for each in offered.all_inner_texts()}


def test_a_name_of_the_store_is_completed_and_its_prefix_declared(page: Page) -> None:
    write(page, "SELECT * { ?s ")
    page.keyboard.type("part")
    offered = page.locator(".cm-tooltip-autocomplete li").first
    expect(offered).to_contain_text("ex:partOf")
    expect(offered).to_contain_text("predicate 3")
    offered.click()
    page.keyboard.type(" ?o }")
    assert text_of(page) == "PREFIX ex: <http://ex/>\nSELECT * { ?s ex:partOf ?o }"
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-result] tbody tr")).to_have_count(1)


def test_a_predicate_that_only_a_stream_has_is_completed(page: Page) -> None:
    window = (
        "PREFIX ex: <http://ex/>\nSELECT * FROM NAMED WINDOW <w> ON STREAM taxis [RANGE 1s STEP 1s] { WINDOW <w> { ?s "
    )
    write(page, window)
    page.keyboard.type("ex:i")
    offered = page.locator(".cm-tooltip-autocomplete li").first
    expect(offered).to_contain_text("ex:in")
    expect(offered).to_contain_text("of stream taxis")


def test_a_prefix_is_completed_to_one_declaration(page: Page) -> None:
    write(page, "PREFIX ")
    page.keyboard.type("rd")
    offered = page.locator(".cm-tooltip-autocomplete li").filter(has_text="rdfs:")
    offered.click()
    assert text_of(page) == "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>"


def test_an_error_goes_when_the_text_is_written_anew(page: Page) -> None:
    write(page, "SELECT * { ?s ?p")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("[data-outcome]").get_by_role("alert")).to_be_visible()
    write(page, "SELECT * { ?s ?p ?o }")
    expect(page.locator("[data-outcome]").get_by_role("alert")).to_have_count(0)


def test_a_result_under_another_text_says_that_it_is_of_an_earlier_one(page: Page) -> None:
    text, earlier = "SELECT * { ?s ?p ?o }", page.get_by_text("This is of an earlier text")
    write(page, text)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("[data-result]")).to_be_visible()
    expect(earlier).to_have_count(0)
    write(page, text.replace("SELECT", "SELEC"))
    expect(earlier).to_be_visible()
    write(page, text)
    expect(earlier).to_have_count(0)
    page.get_by_role("button", name="Format").click()
    expect(page.locator("[data-editor]")).not_to_have_value(text)
    expect(earlier).to_have_count(0)
    write(page, "SELECT ?s { ?s ?p ?o }")
    expect(earlier).to_be_visible()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("[data-result] th", has_text="p")).to_have_count(0)
    expect(earlier).to_have_count(0)


def test_streams_are_offered_where_a_stream_is_meant(page: Page) -> None:
    write(page, "SELECT * FROM NAMED WINDOW <w> ON STREAM ")
    page.keyboard.type("ta")
    expect(page.locator(".cm-tooltip-autocomplete li")).to_have_count(1)
    expect(page.locator(".cm-tooltip-autocomplete li")).to_contain_text("taxis")


def test_what_a_registration_means_is_said_before_it_is_registered(page: Page) -> None:
    write(page, NEAR.replace("near", "other").replace("SELECT ?taxi", "SELECT ?taxy"))
    means = page.locator("[data-means]")
    expect(means).to_contain_text("If you register it as other")
    expect(means).to_contain_text("It reads the last 1 s of the stream taxis, every 100 ms.")
    expect(means).to_contain_text("?taxy is never bound")
    write(page, "ASK { }")
    expect(means).to_be_hidden()


def test_a_text_is_formatted_shared_and_remembered(page: Page, context: BrowserContext) -> None:
    write(page, "SELECT*{?s ?p ?o}")
    page.get_by_role("button", name="Format").click()
    expect(editor(page)).to_have_text("SELECT * {  ?s ?p ?o}")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("[data-result]")).to_be_visible()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("the link to this text is copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    page.get_by_text("History and saved queries").click()
    page.get_by_label("Name to save this text under").fill("all <b>of it</b>")
    page.get_by_role("button", name="Save this text").click()
    other = context.new_page()
    other.goto(link)
    expect(editor(other)).to_have_text("SELECT * {  ?s ?p ?o}")
    expect(other.get_by_text("This text comes from the link")).to_be_visible()
    assert other.locator("[data-result]").count() == 0
    write(other, "ASK { }")
    other.get_by_text("History and saved queries").click()
    other.get_by_role("button", name="all <b>of it</b>", exact=True).click()
    assert text_of(other) == "SELECT * {\n  ?s ?p ?o\n}\n"
    other.get_by_role("button", name="Remove all <b>of it</b>").click()
    expect(other.get_by_text("Nothing is saved yet.")).to_be_visible()


def rows(page: Page) -> list[str]:
    return page.locator("[data-result] tbody tr:visible").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent.trim()).join(' '))"
    )


def test_the_table_sorts_by_value_filters_and_is_copied(page: Page) -> None:
    write(page, COUNTS)
    page.keyboard.press("Control+Enter")
    page.locator("[data-result]").wait_for()
    head = page.get_by_role("columnheader", name="n", exact=True)
    head.get_by_role("button").click()
    assert [row.split()[1] for row in rows(page)] == ["2", "4", "30"]
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("button").click()
    assert [row.split()[1] for row in rows(page)] == ["30", "4", "2"]
    page.get_by_label("Filter the rows").fill("ex/c")
    assert rows(page) == ["<http://ex/c> 4"]
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("1 rows are copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == 's\tn\n<http://ex/c>\t"4"^^<http://www.w3.org/2001/XMLSchema#integer>'


def test_a_result_is_a_chart_and_a_graph_is_a_picture(page: Page) -> None:
    write(page, COUNTS)
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("img", name="Chart of ?n of 3 rows")).to_be_visible()
    write(page, "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Picture").click()
    expect(page.get_by_role("img", name="A picture of 4 triples between 5 nodes")).to_be_visible()


def test_a_result_is_downloaded_whole_in_each_format(page: Page, tmp_path: Path) -> None:
    write(page, "SELECT ?x { VALUES ?x { " + " ".join(map(str, range(1_200))) + " } }")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("1\u202f200 rows, the first 1\u202f000 shown")).to_be_visible()
    for format, ending in (("CSV", "csv"), ("TSV", "tsv"), ("JSON", "json"), ("XML", "xml")):
        page.get_by_label("Format of the download").select_option(format)
        with page.expect_download() as downloading:
            page.get_by_role("button", name="Download").click()
        assert downloading.value.suggested_filename == f"result.{ending}"
        downloading.value.save_as(tmp_path / ending)
    read = list(csv.reader((tmp_path / "csv").read_text().splitlines()))
    assert read == [["x"], *([str(number)] for number in range(1_200))]


def test_a_query_is_cancelled(page: Page) -> None:
    numbers = " ".join(map(str, range(2_000)))
    write(
        page, f"SELECT (SUM(STRLEN(MD5(STR(?a + ?b)))) AS ?n) {{ VALUES ?a {{ {numbers} }} VALUES ?b {{ {numbers} }} }}"
    )
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("running for")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("cancelled", exact=True)).to_be_visible()
    write(page, "ASK { }")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Yes", exact=True)).to_be_visible()


def test_the_plan_is_a_tree_that_folds(page: Page) -> None:
    write(page, "SELECT * { ?s <http://ex/rooms> ?n OPTIONAL { ?s ?p ?o } }")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("region", name="Operators")).to_contain_text("optional")
    leaf = page.locator(".tree code", has_text="?s <http://ex/rooms> ?n")
    expect(leaf).to_be_visible()
    page.locator(".tree summary", has_text="plan").click()
    expect(leaf).to_be_hidden()


def test_an_older_snapshot_is_chosen_with_the_slider(page: Page, server: Live) -> None:
    page.get_by_text("Query an older snapshot").click()
    slider = page.get_by_label("Snapshots that are retained")
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_label("Snapshot", exact=True)).to_have_value(str(server.service.head() - 2))
    page.keyboard.press("End")
    expect(page.get_by_label("Snapshot", exact=True)).to_have_value("")


def test_a_text_is_registered_from_the_page_and_its_warnings_come_along(browser: Browser, tmp_path: Path) -> None:
    with live(tmp_path) as running:
        context = browser.new_context(base_url=running.url)
        page = context.new_page()
        page.goto("/console/query")
        write(page, NEAR.replace("SELECT ?taxi", "SELECT ?taxy"))
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("heading", name="near")).to_be_visible()
        expect(page.get_by_text("near is registered.")).to_be_visible()
        expect(page.locator(".notice.warned")).to_contain_text("?taxy is never bound")
        context.close()
