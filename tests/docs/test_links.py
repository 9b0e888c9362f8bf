"""Links lead somewhere."""

from __future__ import annotations

import pytest

from tests.docs.pages import Page, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file_and_every_fragment_to_a_heading(page: Page) -> None:
    for link in page.links():
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), f"{page.name}: {link}"
        if fragment:
            assert fragment in Page(target).anchors(), f"{page.name}: {link}"
