"""What the store knows of an attached source: what is held of it, and as of when.

The record of a source is stored in the snapshot in which what is held of it changes. So every process finds the same at
the same snapshot, and an emission says of which time the data of the source were that it was made from."""

from __future__ import annotations

from typing import Any

import msgspec

#: The record of the source `main`; it is the only one of which anything is held.
MAIN_NUMBER = 1


class AsOf(msgspec.Struct, frozen=True, array_like=True):
    """A request was answered between these two times (ms), and so shows a state, or several, of the time between."""

    start: int
    end: int

    def shown(self) -> dict[str, int]:
        return {"from": self.start, "to": self.end}


class HeldPattern(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Quads of a source: each position a term, or empty for any. `graph`: a named graph, "*" for all named graphs, or
    empty for the default graph."""

    subject: bytes
    predicate: bytes
    object: bytes
    graph: bytes

    @property
    def terms(self) -> tuple[bytes, bytes, bytes]:
        return self.subject, self.predicate, self.object

    def covers(self, other: HeldPattern) -> bool:
        """Whether it matches all that the other matches."""
        if not (self.graph == other.graph or (self.graph == EVERY_GRAPH and other.graph)):
            return False
        return all(mine in (b"", theirs) for mine, theirs in zip(self.terms, other.terms, strict=True))

    def matches(self, quad: tuple[bytes, bytes, bytes, bytes]) -> bool:
        """`quad`: subject, predicate, object and graph; the default graph is empty."""
        return self.covers(HeldPattern(*quad))

    def shown(self) -> str:
        """As SPARQL writes it: `GRAPH ?g { ?s <http://ex/p> ?o }`."""
        names = ("?s", "?p", "?o")
        triple = " ".join(term.decode() or name for term, name in zip(self.terms, names, strict=True))
        if not self.graph:
            return triple
        return f"GRAPH {'?g' if self.graph == EVERY_GRAPH else self.graph.decode()} {{ {triple} }}"


EVERY_GRAPH = b"*"


class SourceRecord(msgspec.Struct, frozen=True, array_like=True):
    """`patterns` are held, all quads that they match; `whole`: when all of them were fetched last, not only those that
    changed. `fresh_since_ms`: queries that ask the source do not use answers from before that time any more.
    `absorbed_sn`: what was absorbed up to this snapshot is in the source, which knows this store by `store_id`."""

    name: str
    patterns: list[HeldPattern]
    as_of: AsOf
    whole: AsOf
    fresh_since_ms: int = 0
    absorbed_sn: int = 0
    store_id: str = ""

    def is_fresher_than(self, before: SourceRecord) -> bool:
        """Whether queries may no longer use the answers that they could use `before`."""
        return self.fresh_since_ms > before.fresh_since_ms

    def shown(self) -> dict[str, Any]:
        """As an emission says it."""
        found: dict[str, Any] = {"as_of": self.as_of.shown()}
        if self.whole != self.as_of:
            found["whole_as_of"] = self.whole.shown()
        return found


def decoded(body: bytes) -> SourceRecord:
    return msgspec.msgpack.decode(body, type=SourceRecord)
