"""A real Fuseki and a real Virtuoso as the source main."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_ext.errors import SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.evaluate import Asking
from stream_ext.oneshot.question import Question
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from stream_ext.remote.sources import Sources
from tests.parts.fuseki.server import Fuseki
from tests.parts.virtuoso import Virtuoso
from tests.sources.test_one_dataset import play
from tests.stream_ext.generated import EX
from tests.stream_ext.peers import Ours


class FilledFuseki:
    def __init__(self, server: Fuseki) -> None:
        self._server, self.url = server, server.query_url
        self.texts: list[str] = []  # it does not say what it was asked

    def fill(self, quads: str, union: bool) -> bool:
        self._server.empty()
        self._server.load(quads.encode(), "application/trig")
        return False


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_answers_over_a_fuseki_equal_those_of_one_store(fuseki: Fuseki, tmp_path: Path) -> None:
    ended: Counter[str] = Counter()
    for seed in range(500, 515):
        ended += play(seed, tmp_path / str(seed), FilledFuseki(fuseki))
    assert ended["own"] > 40


@pytest.fixture
def over_virtuoso(virtuoso: Virtuoso, tmp_path: Path) -> Iterator[tuple[Ours, Asking]]:
    with (
        closing(SparqlEndpointSource(SourceSettings("main", virtuoso.query_url), 20.0)) as source,
        closing(Ours(tmp_path / "own", [(":a", ":own", ":b", "")])) as own,
    ):
        yield own, Asking(EX, control=Control(120.0), sources=Sources([source], EX))


def answered(own: Ours, asking: Asking, query: str) -> list[tuple[bytes | None, ...]]:
    text = f"PREFIX : <{EX}> {query}"
    return sorted(rows_of(answer_once(own.store, Question.read(text, EX), own.store.head(), None, asking=asking)))


@pytest.mark.virtuoso
@pytest.mark.xdist_group("virtuoso")
def test_a_virtuoso_is_known_for_what_it_is(virtuoso: Virtuoso, over_virtuoso: tuple[Ours, Asking]) -> None:
    own, asking = over_virtuoso
    twice = " ".join(f"GRAPH <{EX}v{n}> {{ <{EX}a> <{EX}t> <{EX}c> . <{EX}c> <{EX}u> 3 }}" for n in (1, 2))
    virtuoso.update(f"INSERT DATA {{ {twice} }}")
    main = asking.sources.main
    assert main is not None
    assert main.traits.default == "union"
    assert answered(own, asking, "SELECT ?o { :a :own ?b ; :t ?o }") == [(f"<{EX}c>".encode(),)]
    assert answered(own, asking, "SELECT (COUNT(*) AS ?n) { ?s :t ?o . ?o :u ?x }")[0][0] == (
        b'"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    )
    assert len(answered(own, asking, "SELECT ?g { GRAPH ?g { :a :t ?o } }")) == 2


@pytest.mark.virtuoso
@pytest.mark.xdist_group("virtuoso")
def test_an_answer_that_virtuoso_cuts_is_none(virtuoso: Virtuoso, over_virtuoso: tuple[Ours, Asking]) -> None:
    own, asking = over_virtuoso
    for start in range(0, 10_500, 1_500):
        some = " ".join(f"<{EX}m{n}> <{EX}many> <{EX}x> ." for n in range(start, start + 1_500))
        virtuoso.update(f"INSERT DATA {{ GRAPH <{EX}many> {{ {some} }} }}")
    with pytest.raises(SourceFailed, match="cuts its answer"):
        answered(own, asking, "SELECT ?s { ?s :many ?o }")
