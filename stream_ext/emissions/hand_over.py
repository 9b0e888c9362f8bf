"""Hand-over: whether Spark may have a shard from now on, and with which states queries that are behind continue."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stream_ext.emissions.merged_progress import MergedProgress
from stream_ext.emissions.sent_parts import ShardParts
from stream_ext.windows.query_state import QueryState


class HandOver(MergedProgress):
    """Under the lock, except `states_behind`."""

    def states_behind(self, queries: Collection[int]) -> dict[int, QueryState]:
        """The states from which queries continue that are behind: all that are behind here, and `queries`, which are
        behind at a runner whose parts begin to count. The earlier parts of that runner did not count."""
        with self._idle():
            found = self._catching_up()
            definitions = self._queries()
            for number in [number for number in queries if number not in found]:
                query, state = definitions.get(number), self._progress.state(number)
                if query is None or state is None or not query.is_evaluated or query.current_state(state) is not state:
                    continue
                if state.behind_at is None:
                    state = state.behind(self._position)
                    self._progress.by_itself(number, state, 0)
                if state.is_catching_up:
                    found[number] = state
            return found

    def _any_behind(self) -> bool:
        return bool(self._progress.catching_up()) or any(self._progress.waiting())

    def _may_go_over(self, shard: int, sent: ShardParts) -> bool:
        """Whether Spark may have this shard from now on."""
        # All snapshots between must have been sent, or some would be missing after the hand-over.
        if sent.reached is None or sent.reached < self._position or not sent.has_all(self._position, sent.reached):
            return False
        # Its parts of queries that are behind may begin after the states that these have here.
        if self._progress.catching_up() and sent.reached > self._position:
            return False
        return self._would_miss_nothing(shard, sent.behind)

    def _would_miss_nothing(self, shard: int, behind: Mapping[int, int]) -> bool:
        """Whether the next owner will send all parts of queries that wait for a remote endpoint.

        `behind`: the snapshots up to which the next owner has stepped them. For a query that waits here, this must not
        be later than its snapshot here, or the parts between would have been sent when they did not count. A query
        that waits only at the next owner is marked as behind here, too, for the owner after it."""
        queries = self._queries()

        def is_handed_over(number: int, state: QueryState) -> bool:
            query = queries.get(number)
            return (
                query is not None
                and query.is_evaluated
                and query.current_state(state) is state
                and self._plan.assigns(shard, query)
            )

        for number, behind_at in self._progress.waiting():
            state = self._progress.state(number)
            if state is not None and is_handed_over(number, state) and behind.get(number, self._position) > behind_at:
                return False
        for number, behind_at in behind.items():
            state = self._progress.state(number)
            if (
                state is not None
                and is_handed_over(number, state)
                and state.behind_at is None
                and behind_at < self._position
            ):
                self._progress.by_itself(number, state.behind(self._position), 0)
        return True
