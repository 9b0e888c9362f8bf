"""A question: a text that is evaluated once, with all that is found out about it between request and answer.

    "SELECT * { ?s ?p ?o }"  --parsed-->  unit  --checked-->  supported  --planned-->  network

It is passed on by value, so that nothing is parsed, checked or planned twice. The questions of short texts are
remembered, because the same texts come again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from hbase_store import Snapshot
from stream_ext.computed_once import computed_once
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.statements import Unit
from stream_ext.language.syntax import parse
from stream_ext.network.network import Encode, Network, NetworkInputs
from stream_ext.oneshot.advice import warnings_of
from stream_ext.oneshot.dataset import DatasetOverride
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.refuse import calls_others, runnable

_QUESTIONS_MAX = 512
#: Texts that are longer are mostly updates with data, which come once.
_REMEMBERED_CHARACTERS = 10_000
#: After so many snapshots joins are ordered anew.
_SNAPSHOTS_MAX = 256


@dataclass(frozen=True, slots=True)
class _Plan:
    """A network that is stepped once has no state, so any number of threads may use it. It may be outdated: a constant
    may be in the store by now, and the counts that ordered the joins may have changed."""

    network: Network
    sn: int

    def serves(self, sn: int) -> bool:
        return self.sn == sn or (not self.network.unknown and abs(sn - self.sn) < _SNAPSHOTS_MAX)


@dataclass(eq=False)
class Question:
    """For one store, with its permanent ids. Any thread may use it."""

    text: str
    base: str
    unit: Unit
    _is_supported: bool = field(default=False, init=False)
    _plan: _Plan | None = field(default=None, init=False)

    @classmethod
    def read(cls, text: str, base: str, check: Check | None = None) -> Question:
        """`check` is called again and again while a long text is parsed, and may raise to end it."""
        return cls(text, base, parse(text, base, check))

    def over(self, dataset: DatasetOverride | None) -> Question:
        """The same text over another dataset (None: over its own)."""
        return self if not dataset else Question(self.text, self.base, dataset.over(self.unit))

    def supported(self) -> Unit:
        """The unit; Unsupported if the engine does not run all of it."""
        if not self._is_supported:
            runnable(self.unit, self.text)
            # Custom functions may be registered and unregistered at any time.
            self._is_supported = isinstance(self.unit, Query) and not calls_others(self.unit)
        return self.unit

    @computed_once
    def warnings(self) -> tuple[str, ...]:
        """What is probably not meant."""
        return warnings_of(self.unit) if isinstance(self.unit, Query) else ()

    @property
    def is_planned(self) -> bool:
        return self._plan is not None

    def network(self, snapshot: Snapshot, encode: Encode, check: Check = Control.FREE.check) -> Network:
        """The network of a query without windows."""
        plan, sn = self._plan, int(snapshot.sn)
        if plan is not None and plan.serves(sn):
            return plan.network
        assert isinstance(self.unit, Query), "only queries are planned"
        network = Network.of_query(logic_of(self.unit, check=check), NetworkInputs(snapshot, encode, check=check))
        self._plan = _Plan(network, sn)
        return network


class Questions:
    """The last questions that were read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Question] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def read(self, text: str, base: str, check: Check | None = None) -> Question:
        if len(text) > _REMEMBERED_CHARACTERS:
            return Question.read(text, base, check)
        key = (text, base)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        question = Question.read(text, base)
        with self._lock:
            self._known[key] = question
            while len(self._known) > _QUESTIONS_MAX:
                self._known.popitem(last=False)
        return question
