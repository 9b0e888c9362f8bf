"""A refresh: what a source has now, compared with what is held of it.

All that is needed is fetched whole. Where that would be too much: what new queries need besides, the subjects that a
predicate says have changed, or the quads of an update. These need blank nodes to have labels that last; if they have
not, all is fetched whole."""

from __future__ import annotations

from collections.abc import Sequence

from hbase_store import Snapshot
from hbase_store.arrays import NO_IDS, distinct_values
from hbase_store.layout.terms import iri
from stream_ext.catalog.sources import HeldPattern, SourceRecord
from stream_ext.sources.blank_nodes import is_blank
from stream_ext.sources.difference import Difference, difference, difference_of, together
from stream_ext.sources.fetched import Fetching, UnknownBlankNodes
from stream_ext.sources.patterns import are_covered
from stream_ext.sources.questions import Quad, changed_since, existing_quads, latest_change, quads_of_subjects

#: Subjects, and quads, of one request.
_SUBJECTS, _QUADS = 500, 500


class Refresh:
    def __init__(self, snapshot: Snapshot, fetching: Fetching, record: SourceRecord | None) -> None:
        """`record`: what is held in the snapshot; None: nothing."""
        self.record = record
        self._snapshot, self._fetching = snapshot, fetching

    def whole(self, patterns: Sequence[HeldPattern]) -> Difference:
        return difference(self._snapshot, self._fetching.quads(patterns))

    def of_new(self, patterns: Sequence[HeldPattern]) -> Difference:
        """Of patterns of which some are held: what comes with the others."""
        held = [] if self.record is None else self.record.patterns
        new = [pattern for pattern in patterns if not are_covered([pattern], held)]
        try:
            return difference(self._snapshot, self._fetching.quads(new, are_all=False), NO_IDS)
        except UnknownBlankNodes:
            return self.whole(patterns)

    def of_quads(self, quads: Sequence[Quad]) -> Difference:
        """Of these quads alone, which have no blank nodes."""
        parts = []
        for start in range(0, len(quads), _QUADS):
            some = quads[start : start + _QUADS]
            now = self._fetching.some(existing_quads(some))
            parts.append(difference_of(self._snapshot, self._fetching.known(some), now))
        return together(parts)

    def with_change(self, inserted: Sequence[Quad], deleted: Sequence[Quad]) -> Difference:
        """Of a change that is known what is held of it."""
        held = [] if self.record is None else self.record.patterns
        come, go = ([quad for quad in quads if any(p.matches(quad) for p in held)] for quads in (inserted, deleted))
        return difference_of(self._snapshot, self._fetching.known(go), self._fetching.known(come))

    def latest_change(self) -> bytes:
        """The last value of the predicate by which changes are found; empty: there is none."""
        changed = self._fetching.source.settings.changed
        if changed is None:
            return b""
        found = list(self._fetching.rows(latest_change(iri(changed))))
        return found[0].get("n", b"") if found else b""

    def changed_since(self, value: bytes, patterns: Sequence[HeldPattern]) -> Difference:
        """Of the subjects that changed since, whose quads are fetched whole."""
        changed = self._fetching.source.settings.changed
        assert changed is not None, "there is a value of it"
        subjects = sorted({row.get("s", b"") for row in self._fetching.rows(changed_since(iri(changed), value))})
        if any(is_blank(subject) or not subject for subject in subjects):
            return self.whole(patterns)  # they cannot be asked for by name
        parts = []
        try:
            for start in range(0, len(subjects), _SUBJECTS):
                some = subjects[start : start + _SUBJECTS]
                text = quads_of_subjects(self._fetching.without_values(patterns), some)
                if text is not None:
                    ids = self._fetching.ids(some)
                    now = self._fetching.some(text, patterns)
                    parts.append(difference(self._snapshot, now, distinct_values(ids[ids != 0])))
        except UnknownBlankNodes:
            return self.whole(patterns)
        return together(parts)
