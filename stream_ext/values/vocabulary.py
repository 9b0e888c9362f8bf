"""Vocabulary: ids for all terms of a query, including those that it creates.

A term that the store knows has the store's id; any other gets a local one, from this vocabulary alone. The store may
learn such a term later, while the query goes on to run. Then its local id stays, and the id of the store is translated
at the border: `inward` for ids from the store or a stream, `outward` for ids to look up there. A transient term, which
the store may delete, is pinned: it keeps its id and its text here, as a local one does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from hbase_store.layout.terms import DATA_MASK, LOCAL, TAG_SHIFT, inline_id, inline_text
from stream_ext.computed_once import computed_once
from stream_ext.evaluation_budget import Control
from stream_ext.rows.zset import Ids
from stream_ext.values.known_values import Facts, KnownValues, no_facts
from stream_ext.values.values import Value

Encode = Callable[[Sequence[bytes]], Ids]
Decode = Callable[[Ids], list[bytes]]

Mask = np.typing.NDArray[np.bool_]

_LOCAL_FIRST = LOCAL << TAG_SHIFT
_BEYOND_LOCAL = (LOCAL + 1) << TAG_SHIFT
_NONE = np.empty(0, np.uint64)
#: Of the objects, and the places in tables and lists, that a term has beside its text.
_TERM_COST = 200


class Vocabulary:
    """Terms to ids and back, for one query. Several threads may use it: it only grows."""

    def __init__(
        self,
        encode: Encode,
        decode: Decode,
        known: KnownValues | None = None,
        version: Callable[[], object] | None = None,
        may_go: Callable[[Ids], Mask] | None = None,
    ) -> None:
        """`known` are values of the store's terms, which may outlive the vocabulary: their ids never change.

        `version` changes whenever the store may have new terms; `may_go` says which ids are those of terms that the
        store may delete while the query still has them, or that others who get the query's rows may not have."""
        self._version, self._seen = version, object()
        self._may_go = may_go
        # Terms that were in the store when they were encoded here, and that it may delete: their ids, ascending.
        self._pinned_texts: dict[int, bytes] = {}
        self._pinned = _NONE
        self._encode_stored, self._decode_stored = encode, decode
        self._known = known
        self._lock = threading.Lock()
        self._ids: dict[bytes, int] = {}
        self._texts: list[bytes] = []
        self.created_bytes = 0  # of local and pinned terms
        # Both ascending by the store's id: terms that were local before the store knew them.
        self._stored = _NONE
        self._local_of_stored = _NONE

    @computed_once
    def _known_stored(self) -> KnownValues:
        return KnownValues(self._decode_stored) if self._known is None else self._known

    @computed_once
    def _known_local(self) -> KnownValues:
        return KnownValues(self.decode)

    @classmethod
    def of_its_own(cls) -> Vocabulary:
        """A vocabulary without a store: every term is local, or contained in its id."""
        return cls(
            lambda texts: np.array([inline_id(text) for text in texts], np.uint64),
            lambda ids: [inline_text(id) for id in ids.tolist()],
        )

    def another(self) -> Vocabulary:
        """One over the same store that has created nothing yet."""
        return Vocabulary(self._encode_stored, self._decode_stored, self._known, self._version, self._may_go)

    def __deepcopy__(self, memo: object) -> Vocabulary:
        """Operators that are copied go on with the same terms."""
        return self

    def encode(self, texts: Sequence[bytes]) -> Ids:
        """The id of each term, a new local one where there is none."""
        if len(texts) == 1 and (known := self._ids.get(texts[0])):  # as a constant, at each step
            return np.array([known], np.uint64)
        if not self._ids and not any(map(_is_own_blank, texts)):
            ids = self._encode_stored(texts)
            self._keep(texts, ids)
            if ids.all():
                return ids
        else:
            ids = self._encode_with_local(texts)
        ids = ids.copy()
        unknown = np.flatnonzero(ids == 0)
        ids[unknown] = self._local([texts[i] for i in unknown.tolist()])
        return ids

    def stored(self, texts: Sequence[bytes]) -> Ids:
        """The ids that terms have in the store, 0 where it does not know one."""
        return self._encode_stored(texts)

    def _encode_with_local(self, texts: Sequence[bytes]) -> Ids:
        """A term that is local stays local; blank nodes that the query created are not looked up in the store."""
        ids = np.array([self._ids.get(text, 0) for text in texts], np.uint64)
        others = [i for i in np.flatnonzero(ids == 0).tolist() if not _is_own_blank(texts[i])]
        if others:
            unresolved = [texts[i] for i in others]
            ids[others] = found = self._encode_stored(unresolved)
            self._keep(unresolved, found)
        return ids

    def _keep(self, texts: Sequence[bytes], ids: Ids) -> None:
        if self._may_go is None:
            return
        places = np.flatnonzero(self._may_go(ids)).tolist()
        if places:
            with self._lock:
                pinned = {int(ids[i]): texts[i] for i in places}
                self._pinned_texts.update(pinned)
                self._ids.update((text, id) for id, text in pinned.items())
                self._pinned = np.union1d(self._pinned, ids[places])
                self.created_bytes += sum(map(len, pinned.values())) + _TERM_COST * len(pinned)

    def is_own(self, ids: Ids) -> Mask:
        """Which ids can be decoded by this vocabulary alone, now or once the store has deleted their terms."""
        own = is_local(ids)
        return own | np.isin(ids, self._pinned) if len(self._pinned) else own

    def _local(self, texts: Sequence[bytes]) -> list[int]:
        with self._lock:
            found = []
            for text in texts:
                id = self._ids.get(text)
                if id is None:
                    id = self._ids[text] = _LOCAL_FIRST + len(self._texts)
                    self._texts.append(text)
                    self.created_bytes += len(text) + _TERM_COST
                found.append(id)
            return found

    def decode(self, ids: Ids) -> list[bytes]:
        """Canonical N-Triples texts; no id may be 0."""
        if not self.created:
            return self._decode_stored(ids)
        local = self.is_own(ids)
        if not local.any():
            return self._decode_stored(ids)
        texts: list[bytes] = [b""] * len(ids)
        for i in np.flatnonzero(local).tolist():
            texts[i] = self._own_text(int(ids[i]))
        stored = np.flatnonzero(~local)
        for i, text in zip(stored.tolist(), self._decode_stored(ids[stored]), strict=True):
            texts[i] = text
        return texts

    def _own_text(self, id: int) -> bytes:
        return self._texts[id & DATA_MASK] if id >= _LOCAL_FIRST else self._pinned_texts[id]

    def facts(self, ids: Ids, control: Control = Control.FREE) -> Facts:
        """The types and values of terms; those that are not known yet are decoded. No id may be 0."""
        local = self.is_own(ids)
        if not local.any():
            return self._known_stored.facts(ids, control)
        facts = no_facts(len(ids))
        facts.put(local, self._known_local.facts(ids[local], control))
        if not local.all():
            facts.put(~local, self._known_stored.facts(ids[~local], control))
        return facts

    def values(self, ids: list[int], control: Control = Control.FREE) -> list[Value | None]:
        """The values of a few ids; None for 0."""
        if 0 not in ids and not (self._texts and any(id >> TAG_SHIFT == LOCAL for id in ids)):
            return list(self._known_stored.values(ids, control))
        found: list[Value | None] = []
        for id in ids:
            known = self._known_local if id >> TAG_SHIFT == LOCAL else self._known_stored
            found += known.values([id]) if id else [None]
        return found

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns with new local ids, and the list of texts that they number: for use without this vocabulary."""
        own = [self.is_own(column) for column in columns] if self.created else []
        local = [column[mask] for column, mask in zip(columns, own, strict=False)]
        used = _distinct(np.concatenate(local), len(self._texts)) if local else _NONE
        if not len(used):
            return columns, []
        counted = np.arange(_LOCAL_FIRST, _LOCAL_FIRST + len(used), dtype=np.uint64)
        found = [
            _translated(column, used, counted) if mask.any() else column
            for column, mask in zip(columns, own, strict=True)
        ]
        return found, self.decode(used)

    def from_portable(self, columns: Sequence[Ids], created: Sequence[bytes]) -> list[Ids]:
        """The columns of `portable`, perhaps of another process, with ids of this vocabulary."""
        return with_ids(columns, self.encode(created)) if created else list(columns)

    @property
    def created(self) -> int:
        """The number of local and pinned terms."""
        return len(self._texts) + len(self._pinned_texts)

    # ---- the border to the store ---------------------------------------------------------------------------------

    def renew(self) -> None:
        """Looks up local terms in the store again: to be called when the store has grown."""
        if not self._ids:
            return
        seen = (self._version() if self._version is not None else object(), self.created)
        if seen == self._seen:
            return
        self._seen = seen
        with self._lock:
            unresolved = [(id, text) for text, id in self._ids.items() if not _is_own_blank(text)]
        if not unresolved:
            return
        local = np.array([id for id, _ in unresolved], np.uint64)
        stored = self._encode_stored([text for _, text in unresolved])
        known = (stored != 0) & (stored != local)
        local, stored = local[known], stored[known]
        order = np.argsort(stored)
        self._local_of_stored, self._stored = local[order], stored[order]

    @property
    def translates(self) -> bool:
        """Whether some ids of the store are others here."""
        return len(self._stored) > 0

    def inward(self, ids: Ids) -> Ids:
        """Ids of the store as ids of this vocabulary."""
        return _translated(ids, self._stored, self._local_of_stored)

    def taken_over(self, ids: Ids, other: Vocabulary) -> Ids:
        """Ids of another vocabulary over the same store as ids of this one; 0 stays."""
        own = other.is_own(ids) if other.created else None
        found = self.inward(ids)
        if own is not None and own.any():
            distinct, places = np.unique(ids[own], return_inverse=True)
            found = found.copy()
            found[own] = self.encode(other.decode(distinct))[places]
        return found

    def outward(self, ids: Ids) -> Ids:
        """Ids of this vocabulary as the store's, where it has one."""
        if not len(self._stored):
            return ids
        order = np.argsort(self._local_of_stored)
        return _translated(ids, self._local_of_stored[order], self._stored[order])


def _is_own_blank(text: bytes) -> bool:
    """Labels of the store's blank nodes are `_:b` and a number; a query's own are `_:q` and anything."""
    return text.startswith(b"_:q")


def stored_blank(text: bytes) -> bytes:
    """A blank node that a query created, as one for the store; any other term is returned unchanged.

    Its number has bit 59 set, which the numbers of the store do not reach, and 58 bits from the label."""
    if not _is_own_blank(text):
        return text
    return b"_:b%d" % ((1 << 59) + (int(text[3:], 16) & ((1 << 58) - 1)))


def decoder(created: Sequence[bytes], decode: Decode) -> Decode:
    """Decodes ids of `portable` columns; `created` are the texts of the local ones."""
    if not created:
        return decode

    def texts(ids: Ids) -> list[bytes]:
        local = is_local(ids)
        stored = iter(decode(ids[~local]))
        return [created[id & DATA_MASK] if own else next(stored) for id, own in zip(ids.tolist(), local, strict=True)]

    return texts


def with_ids(columns: Sequence[Ids], ids: Ids) -> list[Ids]:
    """`portable` columns with the `ids` of their local terms, which are places among these."""
    found = []
    for column in columns:
        if (local := is_local(column)).any():
            column = column.copy()
            column[local] = ids[(column[local] & np.uint64(DATA_MASK)).astype(np.int64)]
        found.append(column)
    return found


def shifted(ids: Ids, by: int) -> Ids:
    """Ids of `portable` columns whose texts are in a longer list, behind so many others."""
    return np.where(is_local(ids), ids + np.uint64(by), ids)


def is_local(ids: Ids) -> Mask:
    return (ids >= np.uint64(_LOCAL_FIRST)) & (ids < np.uint64(_BEYOND_LOCAL))


def _distinct(ids: Ids, count: int) -> Ids:
    """The distinct ids in order; those that are local are places among so many texts, and need not be sorted."""
    if not is_local(ids).all():
        return np.unique(ids)
    seen = np.zeros(count, np.bool_)
    seen[(ids - np.uint64(_LOCAL_FIRST)).astype(np.int64)] = True
    return np.flatnonzero(seen).astype(np.uint64) + np.uint64(_LOCAL_FIRST)


def _translated(ids: Ids, known: Ids, meant: Ids) -> Ids:
    if not len(known):
        return ids
    places = np.minimum(known.searchsorted(ids), len(known) - 1)
    return np.where(known[places] == ids, meant[places], ids)
