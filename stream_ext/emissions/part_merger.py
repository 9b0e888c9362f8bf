"""From parts to emissions: each part changes the progress of its queries, and may make emissions.

The parts of one snapshot are merged in the order of (snapshot of the part, k, number of the query), so that the result
does not depend on how the queries are divided among shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from hbase_store import EmissionRow
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.emission import (
    SharedBody,
    Silence,
    Sources,
    bodies_of,
    body_of,
    encode_body,
    to_json,
    with_source_times,
)
from stream_ext.emissions.groups import EmissionGroup
from stream_ext.emissions.known_texts import KnownTexts
from stream_ext.emissions.progress import Progress
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import NOWHERE, QueryState

#: Emissions as JSON, by query and number.
InJson = dict[tuple[int, int], bytes]
#: Snapshot, number of the evaluation, whether there was one, number of the query.
_PlaceOfRow = tuple[int, int, bool, int]


class PartMerger:
    """Not thread-safe: the merge has the lock. `silent`: queries with a stream of emissions that were evaluated without
    one, which nobody knows yet; `silences`: all whose last evaluation was such. `in_json`: emissions whose rows came as
    JSON."""

    def __init__(
        self, progress: Progress, decode: Callable[[Ids], list[bytes]], sources: Callable[[int], Sources | None]
    ) -> None:
        self._progress, self._decode, self._sources = progress, decode, sources
        self._known = KnownTexts()
        self.silent: dict[int, Silence] = {}
        self.silences: dict[int, Silence] = {}
        self.in_json: InJson = {}

    def of_snapshot(
        self, sn: int, sent: Sequence[Part], queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """The emissions of one snapshot; those of earlier snapshots, which were missed, come first."""
        parts = [part for part in sent if not (part.after_move or part.given_up)]
        # Which are is decided before the first is merged.
        stale = [not part.is_shared and self._is_stale(part) for part in parts]
        in_order = sorted(zip(parts, stale, strict=True), key=lambda each: _place(each[0]))
        found = [row for part, is_stale in in_order for row in self._placed(part, is_stale, queries)]
        if any(part.many is not None for part in parts):
            found.sort(key=lambda each: each[0])  # stable: several queries of one evaluation stay in their order
        yield from (row for _, row in found)
        yield from self._emissions_after_move(sn, [part for part in sent if part.after_move], queries)
        for part in sent:
            if part.given_up and part.query in queries:
                self._give_up(part, queries)

    def _placed(
        self, part: Part, is_stale: bool, queries: Mapping[int, QueryDefinition]
    ) -> Iterator[tuple[_PlaceOfRow, EmissionRow]]:
        """The emissions of a part, and where each belongs among those of others."""
        if part.is_shared:
            if (group := self._progress.together(part, queries)) is not None:
                for row in self._emissions_of_group(part, group, queries):
                    yield _place(part), row
        elif (query := queries.get(part.query)) is not None and not self._is_emitted(part):
            if is_stale:
                self._update_waiting(part)
            else:
                emitted = self._emissions_of(part, query)
                ks = [part.k] if part.many is None else part.many.ks[-len(emitted) :]
                for k, row in zip(ks, emitted, strict=False):
                    yield (part.sn, k, part.evaluated, part.query), row

    def _is_emitted(self, part: Part) -> bool:
        """Whether it is the part of an evaluation that is merged already, from another runner."""
        state = self._progress.state(part.query)
        last = None if state is None else state.evaluated
        return part.evaluated and last is not None and (part.sn, part.k) <= (last.sn, last.k)

    def _is_stale(self, part: Part) -> bool:
        """Whether a part of a query that is behind has an older state than the one that is known."""
        state, new = self._progress.state(part.query), part.state
        if part.evaluated or state is None or new.behind_at == NOWHERE:
            return False
        return (state.behind_at is not None or new.behind_at is not None) and state.progress > new.progress

    def _update_waiting(self, part: Part) -> None:
        """The runner repeats older evaluations than are merged; only whether it waits for an answer is taken from the
        part."""
        state = self._progress.state(part.query)
        if state is None or state.behind_at is None or part.state.behind_at is None:
            return
        if state.unanswered != part.state.unanswered:
            changed = state.behind(state.behind_at, state.within, part.state.unanswered)
            self._progress.by_itself(part.query, changed, 0)

    def _emissions_after_move(
        self, sn: int, parts: Sequence[Part], queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """The emissions of queries that were moved to another runner in this snapshot, from the parts of the new
        runner. All parts of the runner before are merged already."""
        left = {
            part.query: self._current_state(query) for part in parts if (query := queries.get(part.query)) is not None
        }
        for part in sorted(parts, key=lambda part: (part.sn, part.k)):
            if (known := left.get(part.query)) is None:
                continue
            if known.behind_at is None:  # all of its parts are merged
                if part.state.behind_at is not None and not part.evaluated:
                    changed = known.behind(sn, None, part.state.unanswered)
                    self._progress.by_itself(part.query, changed, 0)
            elif part.evaluated:
                if not self._is_emitted(part):
                    yield from self._emissions_of(part, queries[part.query])
            elif part.state.behind_at is None or part.state.progress >= known.progress:
                self._progress.by_itself(part.query, part.state, 0)
            else:
                changed = known.behind(known.behind_at, known.within, part.state.unanswered)
                self._progress.by_itself(part.query, changed, 0)

    def _give_up(self, part: Part, queries: Mapping[int, QueryDefinition]) -> None:
        state = self._current_state(queries[part.query])
        if state.behind_at is not None:
            changed = msgspec.structs.replace(state, behind_at=None, within=None, unanswered=False)
            self._progress.by_itself(part.query, changed, 0)

    def _current_state(self, query: QueryDefinition) -> QueryState:
        """The state of a query; not older than the snapshot since which it runs."""
        state = query.current_state(self._progress.state(query.number))
        return state if state.sn >= max(query.since, 1) else msgspec.structs.replace(state, sn=max(query.since, 1))

    def _emissions_of(self, part: Part, query: QueryDefinition) -> list[EmissionRow]:
        part = self._rest_of(part)
        self._progress.by_itself(part.query, part.state, part.evaluations)
        if part.emits:
            self.forget(part.query)
            sources = with_source_times(part, self._sources(part.sn))
            if part.many is not None:
                numbers = [self._progress.count_emission(part.query, count) for count in part.rows_of_each()]
                bodies = bodies_of(part, query, numbers[0], self._decode, sources)
                return [EmissionRow(part.query, body.number, encode_body(body)) for body in bodies]
            number = self._progress.count_emission(
                part.query, len(part.columns[0]) if part.columns else int(bool(part.boolean))
            )
            body = body_of(
                part, query.name, number, query.r2s, query.variables, self._decode, query.constructs, sources,
                self._known,
            )  # fmt: skip
            if (answer := part.answers.get(part.query)) is not None:
                self.in_json[part.query, number] = to_json(body, answer)
            return [EmissionRow(part.query, number, encode_body(body))]
        if part.evaluated and part.state.evaluated is not None and query.output is not None:
            silence = Silence(part.state.evaluated, self._progress.last(part.query))
            self.silent[part.query] = self.silences[part.query] = silence
        return []

    def forget(self, query: int) -> None:
        """Its last evaluation had an emission, or it was dropped."""
        self.silent.pop(query, None)
        self.silences.pop(query, None)

    def _rest_of(self, part: Part) -> Part:
        """Without evaluations that are merged already, from another runner, which was cut elsewhere."""
        state = self._progress.state(part.query)
        last = None if state is None else state.evaluated
        if not part.evaluated or last is None or last.sn != part.sn or part.k - part.evaluations >= last.k:
            return part
        return part.after(last.k)

    def _emissions_of_group(
        self, part: Part, group: EmissionGroup, queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """One record for all queries; if empty results are not emitted, an emission for each query with a result."""
        if not part.evaluated or not (part.emits or len(part.whose)):
            return
        body = SharedBody.of(part, self._decode, with_source_times(part, self._sources(part.sn)), self._known)
        if part.emits:
            yield EmissionRow(group.number, group.records, encode_body(body))
            for number in part.answers.keys() & queries.keys():
                if self._progress.is_in(number, group):
                    emission, gap = self._progress.memberships(number)[-1].last()
                    own = body.without_rows(queries[number], emission, gap)
                    self.in_json[number, emission] = to_json(own, part.answers[number])
            return
        for number in dict.fromkeys(part.queries[part.whose].tolist()):
            query = queries.get(number)
            if query is not None and self._progress.is_in(number, group):
                emission, gap = self._progress.count_silent_emission(number)
                if (answer := part.answers.get(number)) is not None:
                    self.in_json[number, emission] = to_json(body.without_rows(query, emission, gap), answer)
                yield EmissionRow(number, emission, encode_body(body.own(query, emission, gap)))


def _place(part: Part) -> _PlaceOfRow:
    return part.sn, part.k, part.evaluated, int(part.queries[0])
