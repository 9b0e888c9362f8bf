"""The benchmark of small work: its queries have the answers that pyoxigraph has."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import small


def test_every_kind_of_template_is_compared(tmp_path: Path) -> None:
    figures = small.templates(len(small.KINDS), small.KINDS, small.PREDICATES, True, tmp_path)
    assert figures["checked"] == 2 * len(small.KINDS)
    assert figures["checked_rows"] > 0
