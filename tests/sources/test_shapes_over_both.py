"""Queries of known shapes over data that are parted between the source main and our own store.

They are asked twice: over both, and of our own store with all data. The data that it has of the source are those that
the source shows, which writes 01 as 1. What pyoxigraph says of such queries: `test_shapes_as_pyoxigraph`.

    python -m tests.sources.test_shapes_over_both SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyoxigraph as ox
import pytest

import hbase_store
from hbase_store import Loading, Store
from stream_ext.errors import RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.evaluate import Asking
from stream_ext.oneshot.question import Question
from stream_ext.rdf import careful_rows, parse_rdf
from stream_ext.remote.sources import NO_SOURCES, Sources
from tests.conformance.values import comparable
from tests.sources.scripted import scripted
from tests.sources.shapes import Quad, Shapes, quads, trig
from tests.sources.test_one_dataset import BLANK, Oxigraph, alike, attached
from tests.stream_ext.peers import ROWS_MAX, Answered, TooMuch, _pyoxigraph_said, shown

EX = "http://ex/"
_QUERIES = 8


def loaded(store: Store, data: bytes, media_type: str) -> None:
    parsed = parse_rdf(data, media_type, EX)
    loading = Loading(careful_rows, True)
    loading.add(parsed.terms, (parsed.s, parsed.p, parsed.o, parsed.g))
    store.load(loading)


def asked(store: Store, text: str, sources: Sources = NO_SOURCES) -> Answered:
    asking = Asking(EX, control=Control(20.0), sources=sources)
    try:
        answer = answer_once(store, Question.read(text, EX), store.head(), None, asking=asking)
        if answer.graph is not None:
            triples = zip(*(answer.vocabulary.decode(column) for column in answer.graph), strict=True)
            return Answered(("s", "p", "o"), tuple(tuple(map(comparable, triple)) for triple in triples))
        rows = tuple(tuple(map(comparable, row)) for row in rows_of(answer))
    except RilletError as error:
        return Answered(error=f"{type(error).__name__}: {error}")
    if len(rows) > ROWS_MAX:
        raise TooMuch
    return Answered(tuple(answer.variables), rows, answer.boolean)


def asked_of(peer: ox.Store, text: str) -> Answered:
    try:
        return _pyoxigraph_said(peer.query(text, base_iri=EX))
    except (SyntaxError, ValueError, RuntimeError, OSError) as error:
        return Answered(error=str(error))


def parted(chance: random.Random, data: Sequence[Quad]) -> tuple[list[Quad], list[Quad]]:
    """What our own store has, and what the source has."""
    way = chance.choice(("subject", "predicate", "graph", "each", "each", "both", "theirs"))
    is_own = {term: chance.random() < 0.5 for quad in data for term in quad}
    own, theirs = [], []
    for quad in data:
        match way:
            case "subject":
                goes = (is_own[quad[0]], not is_own[quad[0]])
            case "predicate":
                goes = (is_own[quad[1]], not is_own[quad[1]])
            case "graph":
                goes = (is_own[quad[3]], not is_own[quad[3]])
            case "both":
                goes = (True, chance.random() < 0.5)
            case "theirs":
                goes = (False, True)
            case _:
                goes = chance.choice(((True, False), (False, True), (True, True)))
        if "_:" in quad[0] + quad[2]:
            goes = (False, True)
        own += [quad] * goes[0]
        theirs += [quad] * goes[1]
    return own, theirs


def play(seed: int, place: Path, source: Oxigraph) -> Counter[str]:
    """How its queries ended."""
    chance = random.Random(seed * 7919 + 13)
    ended: Counter[str] = Counter()
    has_blanks = chance.random() < 0.25
    own, theirs = parted(chance, quads(chance, chance.choice((15, 30, 50)), has_blanks))
    source.fill(trig(theirs), False)
    whole_data = bytes(ox.serialize([*_own_quads(own), *source.store], format=ox.RdfFormat.N_QUADS) or b"")
    make = Shapes(chance)
    with (
        attached(source) as sources,
        closing(hbase_store.open(f"lmdb:{place / 'all'}", folding=False)) as whole,
        closing(hbase_store.open(f"lmdb:{place / 'own'}", folding=False)) as mine,
    ):
        loaded(whole, whole_data, "application/n-quads")
        loaded(mine, trig(own).encode(), "application/trig")
        for _ in range(_QUERIES):
            text = make.query()
            source.texts.clear()
            try:
                found, expected = asked(mine, text, sources), asked(whole, text)
            except TooMuch:
                continue
            if found.error and BLANK in found.error:
                ended["blank"] += 1
                continue
            again = f"seed {seed} (python -m tests.sources.test_shapes_over_both {seed})\n{text}\n"
            where = "ours:\n" + "\n".join(map(" ".join, own)) + "\ntheirs:\n" + "\n".join(map(" ".join, theirs))
            sent = "\n".join(source.texts)
            assert alike(found, expected), (
                f"{again}found {shown(found)}\nexpected {shown(expected)}\n{where}\nasked:\n{sent}"
            )
            if expected.error:
                ended["error"] += 1
                continue
            ended["asked" if source.texts else "own"] += 1
    return ended


def _own_quads(data: Sequence[Quad]) -> Iterator[ox.Quad]:
    """As they are written: pyoxigraph's parser leaves 01 as it is, its store does not."""
    return iter(ox.parse(trig(data).encode(), ox.RdfFormat.TRIG))


@pytest.fixture(scope="module")
def source() -> Iterator[Oxigraph]:
    with scripted() as running:
        yield Oxigraph(running)


@pytest.mark.parametrize("block", range(4))
def test_shapes_mean_the_same_over_both(block: int, source: Oxigraph, tmp_path: Path) -> None:
    ended: Counter[str] = Counter()
    for seed in range(block * 5, block * 5 + 5):
        ended += play(seed, tmp_path / str(seed), source)
    assert ended["asked"] > 20, "these seeds ask the source too seldom to prove anything"


@pytest.mark.soak
@pytest.mark.parametrize("block", range(60))
def test_shapes_mean_the_same_over_both_thousands_of_times(block: int, source: Oxigraph, tmp_path: Path) -> None:
    for seed in range(50_000 + block * 10, 50_000 + block * 10 + 10):
        play(seed, tmp_path / str(seed), source)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, scripted() as running:
        total: Counter[str] = Counter()
        for given in sys.argv[1:]:
            first, _, last = given.partition("-")
            for number in range(int(first), int(last or first) + 1):
                try:
                    total += play(number, Path(folder) / str(number), Oxigraph(running))
                except AssertionError as error:
                    print("FAIL", str(error)[:5000], flush=True)
        print(dict(total))
