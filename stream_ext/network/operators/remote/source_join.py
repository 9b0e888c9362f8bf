"""Source join: solutions joined with those of a group that the source main is asked for.

    ?city :mayor ?person        [?person :born ?year] of main

As with SERVICE, the distinct values of what both sides share go along, some hundred at a time, several questions at a
time. If these would be many questions, the whole group is asked for first, up to a bound: a small one is joined here.

A pattern that our own store has matches for, too, is looked for in both; what both find is left out of the answer of
the source. A blank node of the source means something within one answer only: where the query would compare it with
others it fails, by name, and no row is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from hbase_store.arrays import Ids
from stream_ext.computed_once import computed_once
from stream_ext.errors import DeadlineExceeded, SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import id_graph
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.network.operators.remote.remote_answers import Found, Key
from stream_ext.network.operators.remote.remote_question import (
    AnswerLabels,
    RemoteQuestion,
    ServiceCall,
    Texts,
    batches,
    is_same_value,
)
from stream_ext.network.operators.remote.row_kinds import row_kinds
from stream_ext.network.operators.remote.service import ServiceOperator, Unanswered, backoff_of, is_compatible
from stream_ext.plan.logic import GraphNames, GraphScope, PatternScan, SourceGroup
from stream_ext.plan.sources.shapes import has_value
from stream_ext.remote.backoff import ServiceAnswers
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.gathering import bytes_of, gather, gather_each
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution
from stream_ext.rows.zset import ZSet

#: Answers to one question that are retained for other queries, beyond twice those in use.
_ANSWERS_MAX = 1 << 14
_TIMEOUT = ("--service-timeout", "--query-bytes")

#: From so many questions on, a group of at most so many solutions is asked for as a whole.
_QUESTIONS, WHOLE_ROWS = 6, 20_000

_numbers = count()
_SCOPE = "m"
#: AnswerLabels of blank nodes of the source begin so.
OF_SOURCE = f"_:qs{_SCOPE}".encode()


class SourceJoin(ServiceOperator):
    """In one-shot queries nothing is remembered. For registered queries answers are, as those of SERVICE are: all
    queries of a shard share them, until the source is asked again for all that is in use (`--attach-refresh`)."""

    def __init__(self, left: tuple[str, ...], call: ServiceCall, time_left: Control | None = None) -> None:
        """`time_left`: the time that the source has in a registered query; None: so much for each step."""
        super().__init__(left, call)
        self._time_left = time_left
        assert call.group is not None, "what is asked of a source is a group"
        self.group: SourceGroup = call.group

    @computed_once
    def question(self) -> str:
        """The query for the source without values, which is the same for equal joins."""
        return RemoteQuestion(self._call, ()).shown

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        assert moment.last or self.group.unless is None, "what both have is a condition in registered queries"
        return super().step(moment, left)

    def _answers(self, keys: Sequence[Key], moment: Moment) -> tuple[dict[Key, Sequence[Solution]], set[Key]]:
        source = moment.sources.main
        assert source is not None, "a query is planned for the source that is attached"
        if not moment.last:
            return self._answers_in_turn(keys, moment, source), set()
        try:
            return dict(zip(keys, _Answer(self, self._call, moment, source).of(keys), strict=True)), set()
        except CannotFetch as error:
            raise SourceFailed(str(error)) from None

    # ---- registered queries

    def _shared_answers(self, moment: Moment) -> ServiceAnswers:
        return backoff_of(moment).of_main

    def _found(self, keys: Sequence[Key], moment: Moment) -> tuple[Found, set[Key]]:
        """What another query of the shard has asked in this turn is not asked again."""
        shared, what = self._shared_answers(moment), (self.question, self._call.names, self.shared)
        texts = self._sent(keys, moment)
        there = shared.of(what)
        known = {key: there[text] for key in keys if (text := texts[key]) is not None and text in there}
        answers, _ = self._answers([key for key in keys if key not in known], moment)
        retained = {text: solutions for key, solutions in answers.items() if (text := texts[key]) is not None}
        shared.keep(what, retained, _ANSWERS_MAX + 2 * len(self._stored.places))
        return {**known, **answers}, set()

    def _sent(self, keys: Sequence[Key], moment: Moment) -> dict[Key, tuple[bytes | None, ...] | None]:
        """The values of each key as texts, which mean the same in all queries; None: it has a blank node."""
        values = self.values(list(keys), moment.vocabulary)
        return {
            key: None if any(id and text is None for id, text in zip(key[1:], row, strict=True)) else tuple(row)
            for key, row in zip(keys, values, strict=True)
        }

    def _answers_in_turn(self, keys: Sequence[Key], moment: Moment, source: Source) -> dict[Key, Sequence[Solution]]:
        """A source that did not answer is not asked for a while."""
        if not keys:
            return {}
        backoff, url, this = backoff_of(moment), source.settings.url, (source.settings.url, self.question)
        if (why := backoff.why_not(url, this)) is None:
            begun_ms = backoff.clock_ms()
            time_left = self._time_left or time_of_source(moment)
            try:
                found = _Answer(self, self._call, moment, source, time_left).of(keys)
            except (CannotFetch, DeadlineExceeded) as error:
                why = str(error)
                backoff.failed(url if isinstance(error, NoAnswer) else this, why)
            else:
                backoff.answered(url, this)
                self._shared_answers(moment).answered(begun_ms, backoff.clock_ms())
                return dict(zip(keys, found, strict=True))
        raise Unanswered(why, None, False, (url, this))


def time_of_source(moment: Moment) -> Control:
    """The time that a source has, from now on, to answer what an operator of a registered query asks."""
    return Control(moment.allowed_urls.service_timeout_s, what="request to a source", settings=_TIMEOUT)


class _Answer:
    """The answers of one step."""

    def __init__(
        self, operator: SourceJoin, call: ServiceCall, moment: Moment, source: Source, control: Control | None = None
    ) -> None:
        """`control`: the time that the source has; None: that of the query."""
        self._operator, self._moment, self._source = operator, moment, source
        self._control = control or moment.control
        self._shared, self._group = operator.shared, operator.group
        self._question = RemoteQuestion(call, self._shared)
        self._kinds = row_kinds(call.inner).among(call.requested_names)
        self._called = f"the source {source.settings.name} <{source.settings.shown_url}>"
        self._bytes_max = moment.allowed_urls.bytes_max
        self._number = next(_numbers)
        self._blank_answers = 0  # answers with a blank node in a variable by which rows are told apart

    def of(self, keys: Sequence[Key]) -> list[list[Solution]]:
        """The solutions for each key."""
        values = self._operator.values(list(keys), self._moment.vocabulary)
        found: list[list[Solution]] = [[] for _ in keys]
        places = [i for i, key in enumerate(keys) if self._may_match(key, values[i])]
        wanted = [values[i] for i in places]
        sent = self._sent(wanted)
        parts = list(batches(sent)) if self._shared else [(0, 1)]
        if not wanted:
            return found
        is_open = self._shared != () and any(not any(row) for row in sent)
        if (is_open or len(parts) >= _QUESTIONS) and (whole := self._whole(wanted)) is not None:
            for i, solutions in zip(places, whole, strict=True):
                found[i] = solutions
            return found
        texts = [self._question.text(sent[start:stop]) for start, stop in parts]
        if self._group.enough is not None and len(texts) == 1 and not self._shared:
            enough = self._group.enough
            # Of what both may find, some solutions are left out.
            leaves_out = self._group.unless is not None or self._group.exact
            text = texts[0] if leaves_out else self._question.whole_text(enough)
            found[places[0]] = self._enough(text, enough)
            return found
        each = gather_each(self._source, texts, self._control, self._bytes_max)
        for batch, ((start, stop), (solutions, size)) in enumerate(zip(parts, each, strict=True)):
            self._moment.control.spend(size)
            placed = [self._question.place(solution, stop - start, self._called) for solution in solutions]
            self._kinds.check(solutions, self._called)
            exact = self._are_exact(solutions)
            retained = self._own([solutions[i] for i in exact], self._labels(f"{batch}"))
            places_of = [placed[i] for i in exact]
            for place, solution, is_new in zip(places_of, retained, self._are_new(retained), strict=True):
                fixed = zip(self._shared, keys[places[start + place]][1:], wanted[start + place], strict=True)
                if is_new and is_compatible(fixed, solution, self._called):
                    found[places[start + place]].append(solution)
        return found

    def _sent(self, wanted: list[Texts]) -> list[Texts]:
        """What goes along. A store that compares by value would put a number in place of others that are equal."""
        if not self._group.traits.by_value:
            return wanted
        return [[None if text is not None and has_value(text) else text for text in row] for row in wanted]

    def _may_match(self, key: Key, values: Texts) -> bool:
        """Not if a blank node of ours would have to be one of the source."""
        pairs = zip(self._shared, key[1:], values, strict=True)
        return not any(id and text is None and name in self._group.certain for name, id, text in pairs)

    def _whole(self, wanted: list[Texts]) -> list[list[Solution]] | None:
        """The solutions for the values, from all that the group has; None: these are too many."""
        if not {*self._shared} <= self._group.certain or any(text is None for row in wanted for text in row):
            return None
        text = self._question.whole_text(WHOLE_ROWS + 1)
        solutions, size = gather(self._source, text, self._control, self._bytes_max)
        if len(solutions) > WHOLE_ROWS:
            return None
        self._moment.control.spend(size)
        retained = self._own(self._restored(solutions), self._labels("whole"))
        by_values: dict[tuple[bytes | None, ...], list[Solution]] = defaultdict(list)
        for solution, is_new in zip(retained, self._are_new(retained), strict=True):
            if is_new:
                by_values[tuple(solution.get(name) for name in self._shared)].append(solution)
        return [by_values.get(tuple(row), []) for row in wanted]

    def _enough(self, text: str, enough: int) -> list[Solution]:
        """The first solutions that are not found here, too."""
        found: list[Solution] = []
        labels = self._labels("first")
        for some in self._source.select(text, self._control):
            self._moment.control.spend(bytes_of(some))
            retained = self._own(self._restored(some), labels, not found)
            found += [solution for solution, is_new in zip(retained, self._are_new(retained), strict=True) if is_new]
            if len(found) >= enough:
                break
        return found[:enough]

    def _restored(self, solutions: Sequence[Solution]) -> list[Solution]:
        for solution in solutions:
            self._question.restore(solution)
        self._kinds.check(solutions, self._called)
        return [solutions[i] for i in self._are_exact(solutions)]

    def _are_exact(self, solutions: Sequence[Solution]) -> Sequence[int]:
        """Those that have the constants that were asked for, and no others that are the same to the source."""
        if not self._group.exact:
            return range(len(solutions))
        found = []
        for i, solution in enumerate(solutions):
            values = [(constant.text, solution.pop(name)) for name, constant in self._group.exact]
            if all(is_same_value(sent, received, self._called) for sent, received in values):
                found.append(i)
        return found

    # ---- blank nodes

    def _labels(self, answer: str) -> AnswerLabels:
        return AnswerLabels(f"{_SCOPE}{self._number}.{answer}")

    def _own(self, solutions: Sequence[Solution], labels: AnswerLabels, begins: bool = True) -> list[Solution]:
        """With labels of our own for the blank nodes of an answer. SourceFailed where the query would compare them."""
        if not any(text.startswith(b"_:") for solution in solutions for text in solution.values()):
            return list(solutions)
        retained, apart = [], False
        for solution in solutions:
            for name in solution.keys() & (self._group.joined | self._group.distinguished):
                if solution[name].startswith(b"_:"):
                    apart = True
                    if name in self._group.joined:
                        raise self._lost(name)
            retained.append({name: labels.own(text) for name, text in solution.items()})
        self._blank_answers += apart and begins
        # What a registered query is told next is another answer.
        if self._blank_answers > (1 if self._moment.last else 0):
            raise self._lost(next(iter(self._group.distinguished)))
        return retained

    def _lost(self, name: str) -> SourceFailed:
        return SourceFailed(
            f"the source {self._source.settings.name} has a blank node for ?{name}, whose label means something within "
            "one answer only, and the query compares it with what another answer or Rillet's own store has: ask for it "
            f"within one group that only the source has data for, or give the node an IRI"
        )

    # ---- what both have

    def _are_new(self, solutions: Sequence[Solution]) -> Iterable[bool]:
        """Which of the solutions our own store does not have."""
        unless = self._group.unless
        if unless is None or not solutions:
            return [True] * len(solutions)
        if isinstance(unless, GraphNames):
            graphs = self._column(unless.graph.node, solutions)
            known: Iterable[bool] = np.isin(graphs, self._moment.snapshot.graphs())
        else:
            known = self._are_known(unless, solutions)
        return [not here for here in known]

    def _are_known(self, scan: PatternScan, solutions: Sequence[Solution]) -> Iterable[bool]:
        s, p, o = (self._column(node, solutions) for node in (scan.subject, scan.predicate, scan.object))
        if scan.graph.node is not None or scan.graph == GraphScope():
            g = np.zeros(len(s), np.uint64) if scan.graph.node is None else self._column(scan.graph.node, solutions)
            return list(self._moment.snapshot.contains(s, p, o, g))
        edges = StoreEdges(self._moment.snapshot, id_graph(scan.graph, self._id), self._moment.control)
        known = np.zeros(len(s), np.bool_)
        for predicate in np.unique(p).tolist():
            rows = np.flatnonzero(p == predicate)
            known[rows] = edges.contains(s[rows], predicate, o[rows])
        return list(known)

    def _column(self, node: object, solutions: Sequence[Solution]) -> Ids:
        """Ids of the store; ids that it does not know stay as they are, and are found nowhere."""
        vocabulary = self._moment.vocabulary
        if isinstance(node, Constant):
            return np.full(len(solutions), self._id(node.text), np.uint64)
        assert isinstance(node, Variable)
        return vocabulary.outward(vocabulary.encode([solution[node.name] for solution in solutions]))

    def _id(self, text: bytes) -> int:
        vocabulary = self._moment.vocabulary
        return int(vocabulary.outward(vocabulary.encode([text]))[0])
