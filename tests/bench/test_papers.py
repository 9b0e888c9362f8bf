"""The benchmark of the papers' figures: what it says is checked, by pyoxigraph or by a loop over the elements."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import papers
from tests.benchmarks.tape import source


def test_queries_of_other_people_have_the_answers_of_pyoxigraph(tmp_path: Path) -> None:
    found = papers._asked(tmp_path, source(200, shared=False), papers._varied("Q3", 5), [2_000] * 5, 600, 4)
    assert found["checked"] == 3
    assert found["triples_per_cpu_s"] > 0


def test_a_group_over_a_large_window_has_the_counts_of_a_loop(tmp_path: Path) -> None:
    found = papers._group(tmp_path, 500, 200)
    assert found["rows"] == 500, "each element of the last three batches changes one count; the last has 100"


def test_whom_the_conference_sees_is_counted() -> None:
    moves = [(0, b"<http://e/a3> <http://e/at> <http://e/l1>"), (1, b"<http://e/a9> <http://e/at> <http://e/l2>")]
    assert [papers._seen(moves, count) for count in (1, 4, 10, 204)] == [0, 1, 2, 3]
