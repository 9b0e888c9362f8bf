"""Passing on: a SELECT that is for the source main alone is one question to it. Its rows are handed on as they come.

They are read and written again: terms get the form that ours have, blank nodes labels of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count

from stream_ext.errors import SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query, SubSelect
from stream_ext.network.operators.remote.remote_question import Labels, question_of
from stream_ext.oneshot.decoded import Decoded
from stream_ext.plan.logic import Remote, Select
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution

_numbers = count()


def question_alone(select: Select) -> Query | None:
    """The query that is all that is asked; None: more is to be done than to hand on its rows."""
    inner = select.inner
    if not isinstance(inner, Remote) or inner.group is None or not isinstance(inner.inner, SubSelect):
        return None
    query = inner.inner.query
    return query if select == Select(inner, (), None, (), (), (), query.variables, False, 0, None) else None


def passed_on(query: Query, source: Source, control: Control) -> Iterator[Decoded]:
    """The rows. What can fail at once fails here, and not when the first of them is read."""
    text, names = question_of(query)
    rows = _rows(source, text, names, control)
    first = next(rows, None)
    return iter(()) if first is None else chain([first], rows)


def _rows(source: Source, text: str, names: Sequence[str], control: Control) -> Iterator[Decoded]:
    labels = Labels(f"p{next(_numbers)}")
    try:
        for solutions in source.select(text, control):
            yield _decoded(solutions, names, labels)
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None


def _decoded(solutions: Sequence[Solution], names: Sequence[str], labels: Labels) -> Decoded:
    places: dict[bytes | None, int] = {}
    columns = [[places.setdefault(row.get(name), len(places)) for row in solutions] for name in names]
    texts = [None if text is None else labels.own(text) for text in places]
    return Decoded(texts, columns, len(solutions))
