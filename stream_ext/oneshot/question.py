"""A question: a text that is evaluated once, with all that is found out about it between request and answer.

    "SELECT * { ?s ?p ?o }"  --parsed-->  unit  --checked-->  supported  --planned-->  network

It is passed on by value, so that nothing is parsed, checked or planned twice. The questions of short texts are
remembered, because the same texts come again and again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from hbase_store import Snapshot
from hbase_store.cache import RecentlyUsed
from stream_ext.computed_once import computed_once
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.statements import Unit
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.outline import Outline, outline_of
from stream_ext.network.inputs import Encode, NetworkInputs
from stream_ext.network.network import Network
from stream_ext.oneshot.dataset import DatasetOverride
from stream_ext.oneshot.effort import Effort
from stream_ext.oneshot.plan_templates import SNAPSHOTS_MAX, BoundTemplate, PlanTemplate, PlanTemplates
from stream_ext.oneshot.query_traits import QueryTraits
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.refused_syntax.refuse import calls_custom_functions, runnable

_QUESTIONS_MAX = 512
#: Texts that are longer are mostly updates with data, which come once.
_REMEMBERED_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class _Plan:
    """A network that is stepped once has no state, so any number of threads may use it. It may be outdated: a constant
    may be in the store by now, and the counts that ordered the joins may have changed."""

    network: Network
    sn: int

    def serves(self, sn: int) -> bool:
        return self.sn == sn or (not self.network.unknown and abs(sn - self.sn) < SNAPSHOTS_MAX)


@dataclass(frozen=True, slots=True)
class _Learning:
    """What is known of the outline of a text: the plans that may serve it, and where its own is added to them."""

    outline: Outline
    plans: tuple[BoundTemplate, ...]
    templates: PlanTemplates

    @property
    def newest(self) -> PlanTemplate | None:
        return self.plans[0].template if self.plans else None

    def network(self, snapshot: Snapshot, encode: Encode) -> Network | None:
        """That of the first plan that serves the text at this snapshot."""
        found = (plan.network(snapshot, encode) for plan in self.plans)
        return next((network for network in found if network is not None), None)


class Question:
    """For one store, with its permanent ids. Any thread may use it."""

    def __init__(self, text: str, base: str, unit: Unit | None, learning: _Learning | None = None) -> None:
        """`unit` is None only where a plan is known that may serve the text: then it has no errors."""
        self.text, self.base = text, base
        self._unit, self._learning = unit, learning
        self._is_supported = unit is None
        self._plan: _Plan | None = None

    @classmethod
    def read(cls, text: str, base: str, check: Check | None = None) -> Question:
        """`check` is called again and again while a long text is parsed, and may raise to end it."""
        return cls(text, base, parse(text, base, check))

    @property
    def unit(self) -> Unit:
        if self._unit is None:
            self._unit = parse(self.text, self.base)
        return self._unit

    @property
    def outline(self) -> Unit:
        """The unit, but subjects and objects of its triple patterns may be other constants: all that is asked of a
        query once it is planned."""
        if self._unit is None:
            assert self._learning is not None, "there is a plan"
            return self._learning.plans[0].template.query
        return self._unit

    def over(self, dataset: DatasetOverride | None) -> Question:
        """The same text over another dataset (None: over its own)."""
        return self if not dataset else Question(self.text, self.base, dataset.over(self.unit))

    def supported(self) -> Unit:
        """The outline; Unsupported if the engine does not run all of the text."""
        if not self._is_supported:
            runnable(self.unit, self.text)
            # Custom functions may be registered and unregistered at any time.
            self._is_supported = isinstance(self.unit, Query) and not calls_custom_functions(self.unit)
        return self.outline

    @computed_once
    def _traits(self) -> QueryTraits | None:
        """None: it is no query."""
        if self._unit is None:
            assert self._learning is not None, "there is a plan"
            return self._learning.plans[0].template.traits
        return QueryTraits(self._unit) if isinstance(self._unit, Query) else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is probably not meant."""
        return () if self._traits is None else self._traits.warnings

    @property
    def is_volatile(self) -> bool:
        """Whether it may have another answer over the same snapshot."""
        return self._traits is not None and self._traits.is_volatile

    @property
    def is_costly(self) -> bool:
        """Whether it may take long for few rows."""
        return self._traits is not None and self._traits.is_costly

    @property
    def effort(self) -> Effort | None:
        """What its evaluation takes; None: it is no query."""
        return None if self._traits is None else self._traits.effort

    @property
    def is_planned(self) -> bool:
        return self._plan is not None or self._unit is None

    def network(self, snapshot: Snapshot, encode: Encode, check: Check = Control.FREE.check) -> Network:
        """The network of a query without windows."""
        plan, sn = self._plan, int(snapshot.sn)
        if plan is not None and plan.serves(sn):
            return plan.network
        network = self._of_template(snapshot, encode)
        if network is None:
            query = self.unit
            assert isinstance(query, Query), "only queries are planned"
            network = Network.of_query(logic_of(query, check=check), NetworkInputs(snapshot, encode, check=check))
            if self._learning is not None and not network.unknown:
                templates, outline = self._learning.templates, self._learning.outline
                templates.learn(outline, self.text, self.base, query, snapshot, encode)
        self._plan = _Plan(network, sn)
        return network

    def is_ready(self, snapshot: Snapshot, encode: Encode) -> bool:
        """Whether `network` need not plan it."""
        plan, sn = self._plan, int(snapshot.sn)
        if plan is not None and plan.serves(sn):
            return True
        network = self._of_template(snapshot, encode)
        if network is not None:
            self._plan = _Plan(network, sn)
        return network is not None

    def _of_template(self, snapshot: Snapshot, encode: Encode) -> Network | None:
        learning = self._learning
        if learning is None:
            return None
        if (found := learning.network(snapshot, encode)) is not None:
            return found
        # The plans that were there when the text was read may be too old by now; other texts have led to newer ones.
        newer = learning.templates.find(learning.outline)
        if not newer or newer[0].template is learning.newest:
            return None
        self._learning = learning = replace(learning, plans=newer)
        return learning.network(snapshot, encode)


class Questions:
    """The last questions that were read. Those that differ in constants share their plans."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: RecentlyUsed[tuple[str, str], Question] = RecentlyUsed(_QUESTIONS_MAX)
        self._templates = PlanTemplates()

    def __len__(self) -> int:
        return len(self._known)

    def read(self, text: str, base: str, check: Check | None = None) -> Question:
        if len(text) > _REMEMBERED_CHARACTERS:
            return Question.read(text, base, check)
        key = (text, base)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
        question = self._read(text, base)
        with self._lock:
            self._known.put(key, question)
        return question

    def _read(self, text: str, base: str) -> Question:
        outline = outline_of(text, base)
        plans = None if outline is None else self._templates.find(outline)
        if outline is None or plans is None:
            return Question.read(text, base)
        return Question(text, base, None if plans else parse(text, base), _Learning(outline, plans, self._templates))
