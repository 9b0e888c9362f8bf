"""The store as plain Python: a set of quads per snapshot. It shares no code with the store."""

from __future__ import annotations

from collections.abc import Iterable

Quad = tuple[bytes, bytes, bytes, bytes | None]  # None: the default graph
Operation = tuple[bool, Quad]  # whether it inserts


class Model:
    def __init__(self) -> None:
        self.snapshots: list[frozenset[Quad]] = [frozenset()]

    def commit(self, operations: Iterable[Operation]) -> None:
        quads = set(self.snapshots[-1])
        for inserts, quad in operations:
            if inserts:
                quads.add(quad)
            else:
                quads.discard(quad)
        self.snapshots.append(frozenset(quads))

    def changes(self, sn: int) -> set[tuple[Quad, int]]:
        before, after = self.snapshots[sn - 1], self.snapshots[sn]
        return {(quad, 1) for quad in after - before} | {(quad, -1) for quad in before - after}
