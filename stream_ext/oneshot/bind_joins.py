"""The plan of a registered query that sends some of its patterns to the source `main`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hbase_store import Snapshot
from stream_ext.catalog.held_patterns import may_be_remote, patterns_of
from stream_ext.catalog.sources import HeldPattern
from stream_ext.errors import SourceFailed
from stream_ext.language.algebra.terms import Node
from stream_ext.oneshot.own_quads import OwnQuads, Resolve
from stream_ext.plan.logic import GraphScope, Logic, Select
from stream_ext.plan.sources.bind_joins import BindJoinPlan, with_bind_joins
from stream_ext.plan.sources.exclusive import Attached, Holds
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import MAIN, Source


def bind_join_plan(
    select: Select, patterns: Collection[HeldPattern], source: Source | None, holds: Holds
) -> BindJoinPlan:
    """`patterns`: those that are asked; `holds`: as `Attached` has it. SourceFailed if the source is not there, or what
    it is was never found out."""
    if source is None:
        raise SourceFailed(
            f"the query asks the source {MAIN}, and this server was started without it: start it with --attach"
        )
    try:
        attached = Attached(source.traits, holds)
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None

    def is_remote(leaf: Logic) -> bool:
        return may_be_remote(leaf) and any(pattern in patterns for pattern in patterns_of(leaf))

    return with_bind_joins(select, is_remote, attached)


def holds_at_any(snapshots: Sequence[Snapshot], resolve: Resolve) -> Holds:
    """Whether our own store has quads at any of some snapshots: what is exclusive is so at all of them."""
    known = [OwnQuads(snapshot, resolve) for snapshot in snapshots]

    def holds(subject: Node, predicate: Node, target: Node, scope: GraphScope) -> bool:
        return any(own.holds(subject, predicate, target, scope) for own in known)

    return holds


def holds_always(subject: Node, predicate: Node, target: Node, scope: GraphScope) -> bool:
    """For a plan that is right whatever our own store gets: each pattern is looked for in both."""
    return True
