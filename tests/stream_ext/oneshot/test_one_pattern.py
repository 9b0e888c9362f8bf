"""Queries of one pattern about one vertex are a few look-ups; their answers are those of the operators."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Snapshot
from stream_ext.network.network import Network
from stream_ext.rows.zset import Ids
from tests.stream_ext.generated import PROLOGUE, quads
from tests.stream_ext.oneshot.test_plans import answered
from tests.stream_ext.peers import load

STARTS = (":a", ":b", ":c", ":never", '"ab"', "?x", "_:z")
ENDS = (":a", ":b", "1", '"ab"', "?x", "?y", "?y", "?y")
PREDICATES = (":p", ":q", ":r", ":never", "?p", "?p", "?x")
HEADS = (
    "SELECT *",
    "SELECT *",
    "SELECT *",
    "SELECT ?y",
    "SELECT ?x ?y ?p",
    "SELECT DISTINCT ?x",
    "SELECT (?x AS ?v)",
    "ASK",
)
TAILS = ("", "", "", "", "", " ORDER BY ?x ?y ?p", " FILTER(?x != :a)", " VALUES ?x { :a :a }")


def text_of(chance: random.Random) -> str:
    head, tail = chance.choice(HEADS), chance.choice(TAILS)
    pattern = f"{chance.choice(STARTS)} {chance.choice(PREDICATES)} {chance.choice(ENDS)}"
    pattern = f"GRAPH :g1 {{ {pattern} }}" if chance.random() < 0.1 else pattern
    inside, after = (tail, "") if "FILTER" in tail or "VALUES" in tail else ("", tail)
    return f"{PROLOGUE} {head} {{ {pattern} {inside} }}{after}"


@pytest.mark.parametrize("seed", range(4))
def test_one_pattern_has_the_answer_of_its_operators(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, uses = random.Random(seed), list[object]()
    quick = Network.of_one_pattern

    def counted(network: Network, snapshot: Snapshot) -> list[Ids] | None:
        uses.append(found := quick(network, snapshot))
        return found

    with closing(hbase_store.open(f"lmdb:{tmp_path}", folding=False)) as store:
        load(store, quads(chance, 60))
        texts = [text_of(chance) for _ in range(100)]
        monkeypatch.setattr(Network, "of_one_pattern", counted)
        found = [answered(store, text, store.head(), None) for text in texts]
        monkeypatch.setattr(Network, "of_one_pattern", lambda network, snapshot: None)
        assert found == [answered(store, text, store.head(), None) for text in texts]
    assert sum(use is not None for use in uses) >= 5
