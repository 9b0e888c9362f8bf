"""No page has a fault that axe-core finds: for a screen reader, for the keyboard, for those who see little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import endpoint.console.web
from tests.endpoint.console.conftest import editor, write
from tests.endpoint.console.test_in_a_browser import LAPTOP, PATHS, PHONE
from tests.endpoint.live import NEAR, Live
from tests.parts.missing import missing

AXE = Path(endpoint.console.web.__file__).parent / "node_modules/axe-core/axe.min.js"


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core, which set-up installs beside the libraries of the console."""
    if not AXE.exists():
        missing("AXE-CORE", "python -m endpoint.console.web")
    return AXE.read_text()


def faults(page: Page, axe: str) -> list[str]:
    """What axe-core finds, and where. The script runs as a debugger does, which the policy of the page allows."""
    page.evaluate(axe)
    found: dict[str, Any] = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{fault['id']} at {json.dumps(node['target'])}: {node['html'][:200]}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


#: Those that look different on a phone.
FEW = ("/", "/query", "/streams/taxis", "/queries", "/queries/near")


@pytest.mark.parametrize(
    ("size", "scheme", "paths"), [(LAPTOP, "light", PATHS), (PHONE, "dark", FEW)], ids=["laptop", "phone"]
)
def test_no_page_has_a_fault(
    browser: Browser, server: Live, axe: str, size: tuple[int, int], scheme: Any, paths: tuple[str, ...]
) -> None:
    context = browser.new_context(
        base_url=server.url, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    found = {}
    for path in paths:
        page.goto("/console" + path)
        page.locator("body[data-ready]").wait_for()
        found[path] = faults(page, axe)
    page.goto("/console/query")
    write(page, NEAR.replace("near", "other"))
    expect(page.locator("[data-means]")).to_be_visible()
    found["means"] = faults(page, axe)
    for text, view in (("SELECT * { ?s ?p ?o }", "Picture"), ("SELECT * { ?s ?p ?o }", "Chart"), ("SELECT * {", None)):
        write(page, text)
        page.get_by_role("button", name="Run").click()
        # Until its answer is there, the one of the text before is shown, faded.
        result = ".notice" if view is None else "[data-result]"
        expect(page.locator("[data-outcome]:not([aria-busy])").locator(result).first).to_be_visible()
        if view is not None:
            page.get_by_role("button", name=view).click()
        found[f"{text} {view}"] = faults(page, axe)
    editor(page)
    page.get_by_role("button", name="Explain").click()
    context.close()
    assert {path: each for path, each in found.items() if each} == {}
