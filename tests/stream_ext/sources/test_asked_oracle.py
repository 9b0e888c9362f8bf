"""Registered queries that ask a source give the emissions that one store with the data of both gives, whatever happens:
changes through us and past us, what is exclusive beginning and ending, restarts, a source that is away for a while."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stream_ext.errors import BadArgument
from stream_ext.runners.spark.settings import SparkSettings
from tests.stream_ext.opened import opened
from tests.stream_ext.runners.spark.stand_in import DRIVER
from tests.stream_ext.sources.both_services import Both, play, registered, shown, update
from tests.stream_ext.sources.pretended_source import PretendedSource

#: What has no key is refused; the others are asked.
QUERIES = [
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf ?c }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } ?z :partOf :c1 }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?c :near ?d }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf ?c FILTER(?c != :c2) }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf ?c } }",
    "SELECT ?t ?g ?d { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf ?c . ?c :near ?d } }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } GRAPH :g1 { ?z :partOf ?c } }",
    "SELECT ?t ?c FROM :g1 FROM :g2 { WINDOW :w { ?t :in ?z } ?z :partOf ?c }",
    "SELECT ?c (COUNT(?t) AS ?n) { WINDOW :w { ?t :in ?z } ?z :partOf ?c } GROUP BY ?c",
    "SELECT ?t (COUNT(?c) AS ?n) { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?c :near ?d } GROUP BY ?t",
    "SELECT ?t { WINDOW :w { ?t :in ?z } FILTER NOT EXISTS { ?z :near ?d } }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } FILTER EXISTS { ?z :near ?d . ?d :partOf ?c } }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } OPTIONAL { ?z :partOf ?c . ?c :near ?z } }",
    "SELECT ?t ?p ?o { WINDOW :w { ?t :in ?z } ?z ?p ?o }",
    "SELECT ?t ?a ?b { WINDOW :w { ?t :in ?z } ?z :near ?a . ?a :near ?b . ?b :near ?z }",
    "SELECT ?t ?a { WINDOW :w { ?t :in ?z } { ?z :near ?a } UNION { ?a :partOf ?z } }",
    "SELECT DISTINCT ?c { WINDOW :w { ?t :in ?z } ?z :partOf ?c BIND(STR(?c) AS ?s) }",
    "ASK { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?z :near ?c }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf+ ?c }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z (:partOf|:near)* ?c }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?c (:partOf/:near)? ?z }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } ?z :partOf+ :c1 }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } :z3 (:near/:near)? ?z }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } GRAPH :g2 { :z3 :near* ?z } }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z !(:near|^:near) ?c }",
    "SELECT ?t ?g ?c { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf+ ?c } }",
    "SELECT ?t ?g ?c { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :near* ?c } }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } GRAPH :g2 { ?z (:near|^:partOf)+ ?c } }",
    "SELECT ?t ?c FROM :g1 FROM :g2 { WINDOW :w { ?t :in ?z } ?z :partOf* ?c }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } FILTER NOT EXISTS { ?z :near+ :c1 } }",
    "SELECT ?t ?g ?p { WINDOW :w { ?t :in ?z } ?z ?p ?g GRAPH ?g {} }",
]
REFUSED = [
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?x :partOf+ ?c }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } :c1 :partOf* ?c }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { :z3 :near* ?z } }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g {} }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { SELECT ?z { ?z :partOf ?c } LIMIT 1 } }",
    "SELECT ?t ?x { WINDOW :w { ?t :in ?z } ?x :partOf ?c }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } MINUS { ?z :partOf ?c } }",
    "SELECT ?z ?c { ?z :partOf ?c . ?c :near ?d }",
]


class BothAsked(Both):
    """Where the source has more of a pattern than `held_max`, it is asked."""

    def __init__(self, folder: Path, seed: int, spark: SparkSettings | None = None) -> None:
        super().__init__(folder, seed, spark)
        held_max = self.chance.choice((0, 0, 2))
        self.split.close()
        self.source = PretendedSource(held_max=held_max)
        self.split = self.open_split()

    def change(self) -> None:
        if self.chance.random() < 0.2:
            self.clear_own()
        super().change()

    def clear_own(self) -> None:
        """So that patterns become exclusive to the source."""
        gone = self.parts[0] - self.parts[1]
        self.parts[0].difference_update(gone)
        if gone:
            self.merged.update(update(set(), gone), "evaluated")
            self.split.update(update(set(), gone), "evaluated")

    def has_caught_up(self, name: str) -> bool:
        """A snapshot that is published late enough ends the pause in which the source is not asked. The evaluations
        that were missed are then made up for, one after the other."""
        if self.split.query_status(name)["error"] is None:
            return len(shown(self.split, name)) >= len(shown(self.merged, name))
        self.split.refresh_source("main")
        return False

    def close_windows(self) -> None:
        for _ in range(2):
            self.time += 1_500
            self.push()

    def restart(self) -> None:
        """Perhaps while the source is away: what was missed is made up for. What a source has changed since the last
        evaluation is not in what follows a restart, so there is one before."""
        self.close_windows()
        self.split.close()
        self.source.away = self.chance.random() < 0.5
        self.split = self.open_split()
        if self.source.away:
            self.push()
            self.source.away = False
            self.clock.advance(70_000)
        self.split.refresh_source("main", "evaluated")


def play_asked(tmp_path: Path, seed: int, spark: SparkSettings | None = None) -> None:
    with closing(BothAsked(tmp_path, seed, spark)) as both:
        play(both, QUERIES, seed)


@pytest.mark.parametrize("seed", range(12))
def test_emissions_are_those_of_one_store_with_the_data_of_both(tmp_path: Path, seed: int) -> None:
    play_asked(tmp_path, seed)


@pytest.mark.parametrize("seed", range(100, 102))
def test_it_is_so_where_other_queries_are_on_spark(tmp_path: Path, seed: int) -> None:
    play_asked(tmp_path, seed, SparkSettings(epoch_s=0.2, warmup_epochs=1, driver_module=DRIVER))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_it_is_so_for_hundreds_of_histories(tmp_path: Path, block: int) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        play_asked(tmp_path / str(seed), seed)


@pytest.mark.parametrize("query", REFUSED)
def test_what_cannot_be_asked_with_a_key_is_refused_with_the_count(tmp_path: Path, query: str) -> None:
    source = PretendedSource("<http://ex/z1> <http://ex/partOf> <http://ex/c1> .", mode="ask")
    with opened(tmp_path, sources=[source]) as service, pytest.raises(BadArgument, match=r"has [01] quads; at most 0"):
        service.register(registered(query, "q", "RSTREAM"))
