"""A question that stands: one network, stepped from snapshot to snapshot with what changed, beside fresh answers.

The store grows and shrinks by quads, each with the same ids for the same blank nodes, so that answers can be compared
as they are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import hbase_store
from hbase_store import Batch
from stream_ext.catalog.registered_text import constants_of
from stream_ext.continuous.start_point import ChangesBetween
from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.core.moment import Moment
from stream_ext.oneshot.evaluate import evaluate
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.refused_syntax.refuse import parse_runnable
from stream_ext.rdf import parse_rdf
from stream_ext.values.vocabulary import Vocabulary
from tests.stream_ext.generated import EX, Asked, Quad, trig

Bag = Counter[tuple[bytes | None, ...]]


class Changing:
    """A store that gets and loses quads, one snapshot at a time."""

    def __init__(self, place: Path) -> None:
        self.store = hbase_store.open(f"lmdb:{place}", folding=False)
        self._blanks: dict[bytes, int] = {}

    def change(self, inserted: Sequence[Quad], deleted: Sequence[Quad]) -> int:
        batch = self.store.begin()
        for quads, verb in ((deleted, batch.delete), (inserted, batch.insert)):
            if quads:
                verb(*self._columns(batch, quads))
        return int(self.store.commit(batch))

    def know(self, terms: Sequence[bytes]) -> None:
        """As registering a query does: the store knows all constants before the network is built."""
        batch = self.store.begin()
        batch.encode(terms)
        self.store.commit(batch)

    def _columns(self, batch: Batch, quads: Sequence[Quad]) -> tuple[np.typing.NDArray[np.uint64], ...]:
        # One at a time: a document numbers its blank nodes anew.
        ids = np.array([self._ids(batch, quad) for quad in quads], np.uint64)
        return tuple(np.ascontiguousarray(column) for column in ids.T)

    def _ids(self, batch: Batch, quad: Quad) -> list[int]:
        parsed = parse_rdf(trig([quad]).encode(), "application/trig", EX)
        places = (int(parsed.s[0]), int(parsed.p[0]), int(parsed.o[0]), int(parsed.g[0]))
        terms = [b"" if place < 0 else parsed.terms[place] for place in places]
        return [self._id(batch, term, written) for term, written in zip(terms, quad, strict=True)]

    def _id(self, batch: Batch, term: bytes, written: str) -> int:
        if not term:
            return 0
        if not written.startswith("_:"):
            return int(batch.encode([term])[0])
        name = written.encode()
        if name not in self._blanks:
            self._blanks[name] = int(batch.blanks(1)[0])
        return self._blanks[name]


class Standing:
    """The network of a question, and where it has come to."""

    def __init__(self, changing: Changing, asked: Asked) -> None:
        if asked.head.startswith("CONSTRUCT"):
            asked = replace(asked, head="SELECT *")  # it is the solutions that change
        query = parse_runnable(str(asked.whole), EX)
        assert isinstance(query, Query)
        changing.know(constants_of(query))
        self.query = replace(query, r2s=R2S.RSTREAM)
        self._store, self._sn = changing.store, int(changing.store.head())
        self._vocabulary = Vocabulary(self._store.ids, self._store.terms)
        at = self._store.at(self._sn)
        self._network = Network.of_query(logic_of(self.query), NetworkInputs(at, self._store.ids), R2S.RSTREAM)
        self._started = False

    def step(self, sn: int) -> Bag:
        changes = ChangesBetween(self._store, self._sn, sn) if self._started else None
        self._started, self._sn = True, sn
        moment = Moment(sn, self._store.at(sn), changes, vocabulary=self._vocabulary, base=EX)
        columns, weights = self._network.step(moment)
        rows = zip(*(self._texts(column) for column in columns), strict=True) if columns else [()] * len(weights)
        bag: Bag = Counter()
        for row, weight in zip(rows, weights.tolist(), strict=True):
            bag[row] += weight
        return bag

    def _texts(self, column: np.typing.NDArray[np.uint64]) -> list[bytes | None]:
        return [None if id == 0 else self._vocabulary.decode(np.array([id], np.uint64))[0] for id in column.tolist()]

    def fresh(self, sn: int) -> Bag:
        """The same question asked for the first time."""
        answer = evaluate(self._store, self.query, sn)
        if self.query.form is Form.ASK:
            return Counter({(): 1}) if answer.boolean else Counter()
        columns = [
            [None if i == 0 else answer.vocabulary.decode(np.array([i]))[0] for i in c.tolist()] for c in answer.columns
        ]
        return Counter(zip(*columns, strict=True)) if columns else Counter({(): answer.count} if answer.count else {})


def steps(chance: random.Random, data: Sequence[Quad], count: int) -> list[tuple[list[Quad], list[Quad]]]:
    """What comes and goes: half of the data at first, then some of the rest and some of what is there."""
    there = set(chance.sample(list(data), len(data) // 2))
    made = [(sorted(there), list[Quad]())]
    for _ in range(count):
        absent = sorted(set(data) - there)
        coming = chance.sample(absent, min(len(absent), chance.randrange(4)))
        going = chance.sample(sorted(there), min(len(there), chance.randrange(4)))
        there = (there - set(going)) | set(coming)
        made.append((coming, going))
    return made
