"""What a group's filter sees, whatever stands around the group: both peers and the specification say one thing
(18.2.2.2: a filter is of its own group)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stream_ext.generated import Asked, Element, Group, Quad
from tests.stream_ext.peers import Ours, agree, pyoxigraph_of, rdflib_of, shown

DATA: list[Quad] = [
    (":a", ":p", ":b", ""),
    (":b", ":p", ":c", ""),
    (":c", ":p", ":a", ""),
    (":a", ":r", ":b", ""),
    (":a", ":q", "1", ""),
    (":b", ":q", "2", ""),
    (":c", ":q", ":b", ""),
    (":b", ":n", "3", ""),
]
LACKING = "?x :p ?y OPTIONAL { ?x :r ?z } FILTER(!BOUND(?z))"
PATTERNS = [
    f"{{ {LACKING} }} ?x :q ?z",
    f"{{ {LACKING} }} VALUES ?z {{ :a :b }}",
    f"{{ {{ {LACKING} }} ?x :n ?w }} ?x :q ?z",
    f"{{ {{ {LACKING} }} OPTIONAL {{ ?x :n ?w }} }} ?x :q ?z",
    f"{{ {{ {LACKING} }} BIND(1 AS ?w) }} ?x :q ?z",
    f"{{ {{ {LACKING} }} MINUS {{ ?x :n ?w }} }} ?x :q ?z",
    "{ ?x :p ?y OPTIONAL { ?x :r ?z } FILTER(COALESCE(?z, :none) = :none) } ?x :q ?z",
    "{ ?x :p ?y OPTIONAL { ?x :r ?z } FILTER EXISTS { ?w :r ?z } } ?x :q ?z",
    "{ { ?x :p ?y } UNION { ?x :r ?z } FILTER(!BOUND(?z)) } ?x :q ?z",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_filter_finds_nothing_bound_that_only_others_around_its_group_bind(pattern: str, tmp_path: Path) -> None:
    asked = Asked("SELECT ?x ?y ?z", Group([Element(pattern)]))
    theirs, third = pyoxigraph_of(DATA)(asked), rdflib_of(DATA)(asked)
    assert theirs.rows and agree(theirs, third)
    with closing(Ours(tmp_path / "s", DATA)) as ours:
        mine = ours.ask(asked)
    assert agree(mine, theirs), f"ours {shown(mine)}\ntheirs {shown(theirs)}"


@pytest.mark.parametrize(
    "inside", ["", "BIND(1 AS ?x)", "VALUES ?x { 1 }", "OPTIONAL { ?x :p ?y }", ":a :p* ?x", "?x :p ?y"]
)
def test_a_graph_that_from_does_not_name_is_none_whatever_is_looked_for_in_it(inside: str, tmp_path: Path) -> None:
    data: list[Quad] = [(":a", ":p", ":b", g) for g in ("", ":g1", ":g2")]
    asked = Asked("ASK", Group([Element(f"GRAPH :g2 {{ {inside} }}")]), graphs=((), (":g1",)))
    with closing(Ours(tmp_path / "s", data)) as ours:
        assert ours.ask(replace(asked, graphs=((), (":g2",)))).boolean is True
        assert ours.ask(asked).boolean is False  # 18.6: GRAPH with an IRI that is no graph of the dataset is empty


def test_values_behind_a_query_bind_what_its_filters_did_not_see(tmp_path: Path) -> None:
    asked = Asked("SELECT *", Group([Element(LACKING)]), "VALUES ?z { :a :b }")
    theirs = pyoxigraph_of(DATA)(asked)
    assert theirs.rows and agree(theirs, rdflib_of(DATA)(asked))
    with closing(Ours(tmp_path / "s", DATA)) as ours:
        assert agree(ours.ask(asked), theirs)
