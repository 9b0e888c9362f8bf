"""Groups with rows of several ranges: what is counted in each is added up to what one shard counts, to the last bit.

python -m tests.stream_ext.continuous.test_divided_groups SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.continuous.assignment import grouped_query
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.uniting import united
from stream_ext.network.range_summation import RangeSummation
from stream_ext.rows.key_range import Ranges
from stream_ext.values.vocabulary import Vocabulary, decoder
from stream_ext.windows.part import Part
from tests.stream_ext.scene import EX, Player, Push, Scene, Window

_XSD = "http://www.w3.org/2001/XMLSchema#"
_RANGES = 3

#: Of each kind some that are too large, too fine, or no sum at all.
_VALUES = {
    "integer": ["0", "1", "7", "-3", "40", "1" + 30 * "0", "-" + 90 * "9"],
    "decimal": ["0.1", "0.2", "-1.5", "2.0", "0." + 25 * "0" + "1", 80 * "7" + ".5"],
    "double": ["1.0E-1", "2.0E-1", "3.3E0", "1.0E300", "-1.0E300", "1.0E-300", "INF", "-INF", "NaN"],
    "float": ["1.0E-1", "1.6E7", "3.4E38", "-3.4E38"],
    "string": ["seven"],
}
_WEIGHTS = {"integer": 8, "decimal": 4, "double": 3, "float": 1, "string": 1}

_SELECTS = [
    ("SELECT (SUM(?v) AS ?s) (AVG(?v) AS ?m)", "RSTREAM", ""),
    ("SELECT (COUNT(*) AS ?n) (MIN(?v) AS ?l) (MAX(?v) AS ?h)", "RSTREAM", ""),
    ("SELECT ?k (AVG(?v) AS ?m) (SUM(?v) AS ?s)", "RSTREAM", "GROUP BY ?k"),
    ("SELECT ?k (COUNT(DISTINCT ?a) AS ?n) (MAX(DISTINCT ?v) AS ?h)", "ISTREAM", "GROUP BY ?k"),
    ("SELECT ?k (SUM(?v) AS ?s)", "DSTREAM", "GROUP BY ?k"),
    ("SELECT ?k ((SUM(?v) / COUNT(*)) AS ?q)", "ISTREAM", "GROUP BY ?k HAVING (COUNT(?v) > 2) ORDER BY ?k LIMIT 2"),
    ("SELECT ?k (MIN(?v) AS ?l)", "RSTREAM", "GROUP BY ?k HAVING (AVG(?v) > 1) ORDER BY DESC(COUNT(*)) ?k LIMIT 2"),
    ("SELECT DISTINCT ?k", "RSTREAM", "GROUP BY ?k HAVING (SUM(?v) > 1)"),
    ("SELECT (SUM(DISTINCT ?v) AS ?s) (AVG(DISTINCT ?v) AS ?m)", "RSTREAM", ""),
]


class _Story:
    def __init__(self, seed: int, store: Store) -> None:
        self.chance = chance = random.Random(seed)
        select, r2s, after = _SELECTS[seed % len(_SELECTS)]
        pattern = f"WINDOW :w1 {{ ?a :k ?k }} WINDOW :w1 {{ ?a :v ?v }} }} {after} #"
        # Which are all sums of integers, or nearly so, is by chance.
        kinds = chance.sample(sorted(_VALUES), chance.randrange(1, len(_VALUES) + 1))
        self.values = [(value, kind) for kind in kinds for value in _VALUES[kind] for _ in range(_WEIGHTS[kind])]
        self.player = Player(store, Scene([Window("w1", 1, 20, 5)], pattern, select, r2s, {1: 0, 2: 0}))
        self.store, self.sn = store, self.player.register()
        catalog = Catalog.read(store, self.sn)
        self.query = next(iter(catalog.queries))
        self.sum_ranges = RangeSummation(store.ids, store.terms, lambda number: grouped_query(number, catalog))
        self.one = Shard(store)
        self.ranges = [Shard(store, ranges_of=partial(_of_range, n)) for n in range(_RANGES)]
        for shard in (self.one, *self.ranges):
            shard.build({}, self.sn)

    def play(self) -> int:
        """How many rows were emitted."""
        rows, time = 0, 1
        for _ in range(8):
            time += self.chance.choice((2, 5, 7, 7, 60, 9_000))  # so long that its closes are one emission
            triples = tuple(each for _ in range(self.chance.randrange(12)) for each in self._triples())
            sn = self.player.play([Push(1, ((time, triples),)) if triples else Push(1, (), time)])
            expected = self.one.step(sn)
            found = united([each.step(sn) for each in self.ranges], {self.query}, self.sum_ranges)
            assert list(map(self._shown, found)) == list(map(self._shown, expected))
            assert [part.state for part in found[-1:]] == [part.state for part in expected[-1:]]
            rows += sum(len(part.columns[0]) for part in found if part.columns)
        return rows

    def _triples(self) -> list[tuple[str, str, str]]:
        subject = f"<{EX}n{self.chance.randrange(6)}>"
        value, kind = self.chance.choice(self.values)
        literal = f'"{value}"' if kind == "string" else f'"{value}"^^<{_XSD}{kind}>'
        group = f"<{EX}k{self.chance.randrange(4)}>"
        return [(subject, f"<{EX}k>", group), (subject, f"<{EX}v>", literal)]

    def _shown(self, part: Part) -> tuple[object, ...]:
        decode = decoder(part.created, Vocabulary(self.store.ids, self.store.terms).decode)
        texts = [[decode(each)[0] if each else b"" for each in column[:, None]] for column in part.columns]
        return part.k, part.time, part.repeated, part.first, texts


def _of_range(number: int, query: object) -> Ranges:
    return Ranges(_RANGES, frozenset({number}))


def play(seed: int, folder: Path) -> int:
    with closing(hbase_store.open(f"lmdb:{folder}")) as store:
        return _Story(seed, store).play()


def test_sums_of_ranges_are_the_sums_of_all(tmp_path: Path) -> None:
    assert sum(play(seed, tmp_path / str(seed)) for seed in range(len(_SELECTS))) > 100


@pytest.mark.soak
@pytest.mark.parametrize("block", range(50))
def test_sums_of_ranges_are_the_sums_of_all_thousands_of_times(block: int, tmp_path: Path) -> None:
    for seed in range(1_000 + block * 40, 1_000 + block * 40 + 40):
        play(seed, tmp_path / str(seed))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        first, _, last = sys.argv[1].partition("-")
        for given in range(int(first), int(last or first) + 1):
            print(given, play(given, Path(where) / f"{given}"), flush=True)
