"""Source evaluation: a query that the source main evaluates as a whole, at each evaluation anew.

Its inputs are the triples of the query's windows; it keeps those that are present. The output is the difference from
the rows of the evaluation before. A function may raise, and may answer otherwise later: then there is no answer now."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from hbase_store.errors import StoreUnavailable
from stream_ext.errors import DeadlineExceeded, QueryCancelled, QueryTooLarge, SourceFailed
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.remote.remote_answers import PresentRows
from stream_ext.network.operators.remote.service import Unanswered, backoff_of
from stream_ext.plan.logic import SourceEvaluated
from stream_ext.remote.evaluating import FunctionsGone, OwnData, Texts, WholeQuestion, evaluating
from stream_ext.remote.sparql_client import Solution
from stream_ext.rows.zset import ZSet, concat, consolidate, empty

_OF_BUDGET = (QueryTooLarge, DeadlineExceeded, QueryCancelled, MemoryError, StoreUnavailable)


class SourceEvaluation:
    def __init__(self, node: SourceEvaluated) -> None:
        self.variables = node.names if node.place is None else (*node.names, node.place)
        self._node = node
        self._present = [PresentRows(3) for _ in node.windows]
        self._shown = empty(len(self.variables))
        #: The times of its evaluations in one snapshot, from the first to the last.
        self.as_of: tuple[int, int] | None = None
        self._evaluated_sn = -1

    def step(self, moment: Moment, *changes: ZSet) -> ZSet:
        if moment.last:
            return self._rows(moment, [_texts(moment, change.columns) for change in changes])
        for present, change in zip(self._present, changes, strict=True):
            present.take(change)
        content = [_texts(moment, present.summed(moment.time).columns) for present in self._present]
        now = self._answered(moment, content)
        difference = consolidate(concat([now, self._shown.negated()], now.width))
        self._shown = now
        return difference

    def _answered(self, moment: Moment, content: list[list[Texts]]) -> ZSet:
        """Unanswered if a function raises; what has raised is not called again for a while."""
        backoff, this = backoff_of(moment), self._key
        if (why := backoff.why_not(this)) is not None:
            raise Unanswered(why, None, False, (this,))
        begun_ms = backoff.clock_ms()
        try:
            rows = self._rows(moment, content)
        except SourceFailed as error:
            backoff.failed(this, str(error))
            raise Unanswered(str(error), None, False, (this,)) from error
        backoff.answered(this)
        sn = int(moment.snapshot.sn)
        first, _ = self.as_of if self.as_of is not None and sn == self._evaluated_sn else (begun_ms, 0)
        self.as_of, self._evaluated_sn = (first, backoff.clock_ms()), sn
        return rows

    @property
    def _key(self) -> Hashable:
        return "evaluated as a whole", self._node.text

    def _rows(self, moment: Moment, content: list[list[Texts]]) -> ZSet:
        """SourceFailed with what a function raised."""
        source, vocabulary = evaluating(moment.sources.main), moment.vocabulary
        try:
            if source is None:
                raise FunctionsGone(f"there is no <{self._node.functions[0]}> in this process")
            own = OwnData(moment.snapshot, vocabulary.stored, vocabulary.decode)
            windows = dict(zip(self._node.windows, content, strict=True))
            question = WholeQuestion(self._node.text, self._node.functions, windows, own, moment.now_ms)
            return self._encoded(moment, source.evaluate(question, moment.control))
        except _OF_BUDGET:
            raise
        except FunctionsGone as error:
            raise SourceFailed(f"{error}: attach the dataset with the functions that the query calls") from error
        except Exception as error:  # a function may raise anything
            raise SourceFailed(f"rdflib, or a function in Python, raised {type(error).__name__}: {error}") from error

    def _encoded(self, moment: Moment, solutions: list[Solution]) -> ZSet:
        columns = []
        for name in self._node.names:
            texts = [solution.get(name) for solution in solutions]
            column = np.zeros(len(texts), np.uint64)
            if bound := [text for text in texts if text is not None]:
                column[[text is not None for text in texts]] = moment.vocabulary.encode(bound)
            columns.append(column)
        if self._node.place is not None:
            columns.append(moment.vocabulary.encode([_number(place) for place in range(len(solutions))]))
        moment.control.room(len(solutions), len(columns))
        return ZSet(tuple(columns), len(solutions))


def _number(place: int) -> bytes:
    return b'"%d"^^<http://www.w3.org/2001/XMLSchema#integer>' % place


def _texts(moment: Moment, columns: tuple[np.ndarray, ...]) -> list[Texts]:
    """Each triple once."""
    ids = np.unique(np.concatenate(columns))
    texts = dict(zip(ids.tolist(), moment.vocabulary.decode(ids) if len(ids) else [], strict=True))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(texts[s], texts[p], texts[o]) for s, p, o in dict.fromkeys(rows)]
