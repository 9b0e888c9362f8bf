"""Different queries of one timing have one part a close: each reads every byte, by every number, as if it were alone.

python -m tests.stream_ext.emissions.test_joint_emissions SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

from tests.stream_ext.emissions.test_shared_emissions import Play, alone, short_runs
from tests.stream_ext.opened import registration

QUERIES = [
    ("RSTREAM", "SELECT ?x ?y", "?x :p ?y"),
    ("ISTREAM", "SELECT ?x ?y", "?x :p ?y"),
    ("DSTREAM", "SELECT ?y ?x", "?x :p ?y"),
    ("RSTREAM", "SELECT ?x ?z", "?x :p ?y . ?y :p ?z"),
    ("ISTREAM", "SELECT DISTINCT ?y", "?x :p ?y"),
    ("RSTREAM", "SELECT ?y (COUNT(*) AS ?n)", "?x :p ?y } } GROUP BY ?y #"),
    ("RSTREAM", "SELECT ?x ?t", '?x :p ?y BIND(CONCAT("t", STR(?x)) AS ?t)'),
    ("ISTREAM", "SELECT ?x ?y ?t", '?x :p ?y BIND(CONCAT("u", STR(?y)) AS ?t)'),
    ("RSTREAM", "SELECT ?x ?k", "?x :p ?y } OPTIONAL { ?x :k ?k"),
    ("ISTREAM", "SELECT ?x", "?x :p ?y } MINUS { ?x :k ?k"),
    ("RSTREAM", "ASK", "?x :p ?y"),
]


class JointPlay(Play):
    """Queries of one timing, of which few are of one template."""

    def _text(self, number: int) -> str:
        r2s, select, pattern = self.chance.choice(QUERIES)
        window = "RANGE PT0.03S STEP PT0.01S"
        text = registration(f"q{number}", window=window, select=select, r2s=r2s, pattern=pattern)
        self.texts[f"q{number}"] = text
        return text


@pytest.mark.parametrize(("seed", "deaths"), [(1, 0.0), (6, 0.0), (5, 0.25), (11, 0.25)])
def test_what_different_queries_say_together_each_can_read(seed: int, deaths: float, tmp_path: Path) -> None:
    assert compare(tmp_path, seed, deaths) > 20, "these share too little to prove anything"


@pytest.mark.soak
@pytest.mark.parametrize("block", range(50))
def test_what_different_queries_say_together_hundreds_of_plays(block: int, tmp_path: Path) -> None:
    for seed in range(20_000 + block * 10, 20_010 + block * 10):
        compare(tmp_path / str(seed), seed, random.Random(seed).choice((0.0, 0.2)))


def compare(folder: Path, seed: int, deaths: float) -> int:
    """How many emissions were stored together with those of others."""
    folder.mkdir(parents=True, exist_ok=True)
    with short_runs(), mock.patch("stream_ext.continuous.joint_parts.TOGETHER_MIN", 1 + seed % 3):
        with alone():
            expected = JointPlay(folder / "alone", seed, 0.0, exact=not deaths).run()
        play = JointPlay(folder / "joint", seed, deaths, exact=not deaths)
        found = play.run()
    assert found.keys() == expected.keys(), f"seed {seed}"
    for name, own in expected.items():
        assert found[name] == own, f"seed {seed}, query {name}: {play.texts[name]}"
    return play.shared


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            for deaths in (0.0, 0.25):
                shared = compare(Path(where) / f"{given}-{deaths}", int(given), deaths)
                print(f"seed {given}, deaths {deaths}: {shared} emissions were stored with others, nothing is wrong")
