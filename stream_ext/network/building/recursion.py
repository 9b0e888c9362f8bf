"""Recursion: what conjunctions, conditions and selects call when a part of a query has parts of its own."""

from __future__ import annotations

from typing import Protocol

from stream_ext.network.wires import Ground, Wire
from stream_ext.plan.logic import Logic, Names


class PartRecursion(Protocol):
    """The builder, as its collaborators see it."""

    def extend(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        """The solutions of the wire, joined with those of the node."""
        ...

    def extended(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        """As `extend`; the caller knows that the node may be evaluated for the values of the wire."""
        ...

    def joined_later(self, node: Logic, names: Names, wire: Wire, ground: Ground) -> Wire:
        """As `extend`; the node is evaluated for the values of these variables only, and then joined."""
        ...

    def ground_of(self, node: Logic, ground: Ground) -> Ground:
        """Where the node begins."""
        ...
