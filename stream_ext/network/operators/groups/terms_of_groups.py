"""The terms of groups, for aggregates that need the values behind ids.

Inline integers are read from their ids; other terms are decoded, each once in a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from hbase_store.layout.terms import INTEGER, literal, parse_term, tag_of
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.groups.range_sums import SumOfRange, is_sum
from stream_ext.values.decoding import decoded_within
from stream_ext.values.expressions.rows import ExpressionContext
from stream_ext.values.term_order import order_ranks
from stream_ext.values.values import Value, text_of, value_of
from stream_ext.values.vocabulary import Vocabulary

Ranks = npt.NDArray[np.int64]
Read = TypeVar("Read")


class TermsOfGroups:
    def __init__(self, vocabulary: Vocabulary, control: Control = Control.FREE) -> None:
        self.go_on_with(vocabulary, control)

    def go_on_with(self, vocabulary: Vocabulary, control: Control) -> None:
        self.vocabulary, self.control = vocabulary, control

    def is_of(self, vocabulary: Vocabulary, control: Control) -> bool:
        return self.vocabulary is vocabulary and self.control is control

    def values(self, ids: Ids) -> list[Value | None]:
        """None for what is unbound."""
        return self._read(ids, value_of)

    def values_or_sums(self, ids: Ids) -> list[Value | SumOfRange | None]:
        """The same, where some are sums of ranges."""
        return self._read(ids, lambda text: SumOfRange(text) if is_sum(text) else value_of(text))

    def _read(self, ids: Ids, read: Callable[[bytes], Read]) -> list[Read | None]:
        distinct, places = np.unique(ids, return_inverse=True)
        bound = distinct[distinct != 0]
        values: list[Read | None] = [read(text) for text in self._texts(bound)]
        if len(bound) < len(distinct):
            values.insert(0, None)
        return [values[place] for place in places.tolist()]

    def strings(self, ids: Ids) -> tuple[list[str | None], npt.NDArray[np.intp]]:
        """What STR() says of the distinct ones (None for a blank node), and the place of each among them."""
        distinct, places = np.unique(ids, return_inverse=True)
        texts = self._texts(distinct)
        return [None if text.startswith(b"_:") else parse_term(text).value for text in texts], places.reshape(-1)

    def _texts(self, ids: Ids) -> list[bytes]:
        return decoded_within(self.vocabulary.decode, ids, self.control)

    def ranks(self, ids: Ids) -> Ranks:
        """Equal for equal terms only: what ORDER BY does not tell apart is in order of its text."""
        if bool((tag_of(ids) == INTEGER).all()):
            return ids.view(np.int64)  # their ids sort as they do
        distinct, places = np.unique(ids, return_inverse=True)
        ranks = order_ranks(distinct, ExpressionContext(self.vocabulary, control=self.control))
        if len(np.unique(ranks)) < len(ranks):
            texts = self._texts(distinct)
            order = sorted(range(len(texts)), key=lambda i: (ranks[i], texts[i]))
            ranks[order] = np.arange(len(texts))
        return ranks[places]

    def ids_of_numbers(self, values: Sequence[Value | None]) -> Ids:
        """0 for what is None."""
        return self._ids([None if value is None else text_of(value) for value in values])

    def ids_of_sums(self, texts: Sequence[bytes | None]) -> Ids:
        return self._ids(texts)

    def ids_of_strings(self, texts: Sequence[str | None]) -> Ids:
        return self._ids([None if text is None else literal(text) for text in texts])

    def _ids(self, texts: Sequence[bytes | None]) -> Ids:
        known = [text for text in texts if text is not None]
        bytes_before = self.vocabulary.created_bytes
        encoded = self.vocabulary.encode(known)
        self.control.spend(self.vocabulary.created_bytes - bytes_before)
        if len(known) == len(texts):
            return encoded
        ids = np.zeros(len(texts), np.uint64)
        ids[[i for i, text in enumerate(texts) if text is not None]] = encoded
        return ids
