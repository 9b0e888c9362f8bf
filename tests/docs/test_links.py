"""Links lead somewhere."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT, Page, pages


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


def test_every_decision_has_a_number_of_its_own_which_its_title_repeats() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in decisions]
    assert len(numbers) > 30
    assert [path.name for path in decisions if numbers.count(int(path.name[:4])) > 1] == []
    titles = [path.read_text().partition("\n")[0] for path in decisions]
    assert [t for t, number in zip(titles, numbers, strict=True) if not t.startswith(f"# {number}. ")] == []
