"""Passing on: a SELECT that is for the source main alone is one question to it. Its rows are handed on as they come.

They are read and written again: terms get the form that ours have, blank nodes labels of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count

import numpy as np

from hbase_store.arrays import Ids
from stream_ext.errors import SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query, SubSelect
from stream_ext.network.operators.remote.remote_question import AnswerLabels, question_of
from stream_ext.network.operators.remote.row_kinds import RowKinds, row_kinds_of
from stream_ext.oneshot.decoded import Decoded
from stream_ext.plan.logic import Remote, Select
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution
from stream_ext.values.vocabulary import Vocabulary

_numbers = count()


def whole_question(select: Select) -> Query | None:
    """The query that is all that is asked; None: more is to be done than to hand on its rows."""
    inner = select.inner
    if not isinstance(inner, Remote) or inner.group is None or not isinstance(inner.inner, SubSelect):
        return None
    query = inner.inner.query
    return query if select == Select(inner, (), None, (), (), (), query.variables, False, 0, None) else None


def passed_on(query: Query, source: Source, control: Control) -> Iterator[Decoded]:
    """The rows. What can fail at once fails here, and not when the first of them is read."""
    text, names = question_of(query)
    kinds = row_kinds_of(query)
    back = dict(zip(names, query.variables, strict=True))
    rows = _rows(source, text, back, kinds, control)
    first = next(rows, None)
    return iter(()) if first is None else chain([first], rows)


def collected(rows: Iterator[Decoded], width: int, vocabulary: Vocabulary, control: Control) -> tuple[list[Ids], int]:
    """The rows as columns of ids, and how many there are."""
    parts: list[list[Ids]] = [[np.empty(0, np.uint64)] for _ in range(width)]
    count = 0
    for some in rows:
        control.room(some.rows, width)
        count += some.rows
        bound = [text for text in some.texts if text is not None]
        ids = iter(vocabulary.encode(bound).tolist() if bound else [])
        known = np.array([0 if text is None else next(ids) for text in some.texts], np.uint64)
        for part, column in zip(parts, some.columns, strict=True):
            part.append(known[np.array(column, np.int64)])
    return [np.concatenate(part) for part in parts], count


def _rows(source: Source, text: str, back: Mapping[str, str], kinds: RowKinds, control: Control) -> Iterator[Decoded]:
    labels = AnswerLabels(f"p{next(_numbers)}")
    try:
        for solutions in source.select(text, control):
            named = [{back[name]: text for name, text in row.items() if name in back} for row in solutions]
            kinds.check(named, f"the source {source.settings.name} <{source.settings.shown_url}>")
            yield _decoded(named, tuple(back.values()), labels)
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None


def _decoded(solutions: Sequence[Solution], names: Sequence[str], labels: AnswerLabels) -> Decoded:
    places: dict[bytes | None, int] = {}
    columns = [[places.setdefault(row.get(name), len(places)) for row in solutions] for name in names]
    texts = [None if text is None else labels.own(text) for text in places]
    return Decoded(texts, columns, len(solutions))
