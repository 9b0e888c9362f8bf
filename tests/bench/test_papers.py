"""The benchmark of the papers' figures: what it says is checked, by pyoxigraph or by a loop over the elements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import papers, papers_cloud, papers_conference
from tests.benchmarks.papers_replay import asked_at_closes, varied
from tests.benchmarks.tape import source


def test_queries_of_other_people_have_the_answers_of_pyoxigraph(tmp_path: Path) -> None:
    found = asked_at_closes(tmp_path, source(200, shared=False), varied("Q3", 5), [2_000] * 5, 600, 4)
    assert found["checked"] == 3
    assert found["triples_per_cpu_s"] > 0


def test_a_group_over_a_large_window_has_the_counts_of_a_loop(tmp_path: Path) -> None:
    found = papers_cloud._group(500, 200, tmp_path)
    assert found["rows"] == 500, "each element of the last three batches changes one count; the last has 100"
    assert found["checked_rows"] == 100


def test_five_windows_are_joined_as_a_loop_joins_them(tmp_path: Path) -> None:
    assert papers_cloud._join(1_000, 2_500, tmp_path)["checked_rows"] > 5


def test_elements_find_what_is_stored_of_their_keys(tmp_path: Path) -> None:
    assert papers_cloud._with_stored(1_000, 100, tmp_path)["checked_rows"] == 100


@pytest.mark.parametrize("name", ["Q1", "Q3", "Q4"])
def test_those_who_ask_of_a_conference_have_the_rows_of_a_loop(name: str, tmp_path: Path) -> None:
    assert papers_conference._asked(True, name, 8, tmp_path)["rows"] > 0


def test_parts_are_chosen_by_their_names() -> None:
    chosen = [(part, name) for part, name, _ in papers._chosen(True, ["plus_8", "cloud_7/Q1"])]
    assert chosen == [("plus_8", "registered"), ("cloud_7", "Q1_10")]
