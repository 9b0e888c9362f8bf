"""Many registered queries of a few templates, over one store; and each of them alone, to compare with."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
import numpy as np

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog, CatalogStep, MovePosition, QueryDefinition
from stream_ext.catalog.registered_text import RegisteredText, constants_of, query_of
from stream_ext.catalog.timing import timing_of
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.continuous.shard import Shard
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.plan.templates.template_number import number_of
from stream_ext.values.vocabulary import decoder, is_local
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.schedule import initial_state
from tests.stream_ext.scene import BASE, EX, Player, Scene, each_of


class ApartShard(Shard):
    """Each query has a network of its own."""

    def read(self, definition: QueryDefinition, state: QueryState | None, catalog: Catalog) -> PlannedQuery | None:
        asked = super().read(definition, state, catalog)
        return None if asked is None else replace(asked, registered=replace(asked.registered, parametrised=None))


class AloneShard(ApartShard):
    """And each network is stepped with every snapshot, whether it concerns the query or not."""

    def _forget_all(self) -> None:
        super()._forget_all()
        self.runs.settle = lambda sn: None  # type: ignore[method-assign]  # nobody is in a timing class


def takes_inline(query: QueryDefinition) -> bool:
    """What the inline runner takes while Spark has all shards."""
    return query.home is not None


@dataclass
class Registry:
    """Registers, drops and pauses queries in a store that a `Player` plays into."""

    player: Player
    queries: dict[int, QueryDefinition] = field(default_factory=dict)
    used: int = 0

    @classmethod
    def over(cls, store: Store, scene: Scene) -> Registry:
        """With the streams of a scene, whose own query is dropped again."""
        player = Player(store, scene)
        player.register()
        registry = cls(player, used=1)
        registry._publish(1, None)
        return registry

    def register(self, text: str) -> int:
        query, catalog = query_of(text, BASE), self._catalog()
        timing, head = timing_of(query, catalog), int(self.store.head())
        shared = RegisteredText.of(query).parametrised
        self.used += 1
        definition = QueryDefinition(
            self.used, f"q{self.used}", f"{EX}q{self.used}", text, BASE, query.emits.value, list(columns_of(query)),
            [window.stream for window in timing.windows], head + 1, self._initial(text), since=head + 1,
            placement=0 if shared is None else number_of((shared.template, tuple(catalog.stream_iris))),
        )  # fmt: skip
        return self._publish(self.used, definition, constants_of(query))

    def drop(self, number: int) -> int:
        del self.queries[number]
        return self._publish(number, None)

    def pause(self, number: int) -> int:
        return self._publish(number, msgspec.structs.replace(self.queries[number], paused=True))

    def resume(self, number: int, t0: int | None) -> int:
        state = msgspec.structs.replace(
            self._initial(self.queries[number].text, t0, self.queries[number].state), t0=t0, gap=True
        )
        head = int(self.store.head())
        resumed = msgspec.structs.replace(self.queries[number], paused=False, since=head + 1, state=state)
        return self._publish(number, resumed)

    def move(self, number: int, home: Literal["inline"] | None, left: MovePosition) -> int:
        return self._publish(number, msgspec.structs.replace(self.queries[number], home=home, left=left))

    @property
    def store(self) -> Store:
        return self.player.store

    def _initial(self, text: str, t0: int | None = None, before: QueryState | None = None) -> QueryState:
        timing = timing_of(query_of(text, BASE), self._catalog(), t0)
        return initial_state(timing, self.store.vts(self.store.head()), int(self.store.head()), before)

    def _catalog(self) -> Catalog:
        return Catalog.read(self.store, int(self.store.head()))

    def _publish(self, number: int, definition: QueryDefinition | None, constants: Sequence[bytes] = ()) -> int:
        batch = self.store.begin()
        batch.encode(constants)
        batch.catalog("query", number, CatalogStep("query", number, definition).body())
        if definition is not None:
            self.queries[number] = definition
        return int(self.store.commit(batch))


def parted(parts: Sequence[Part], states: dict[int, QueryState]) -> list[Part]:
    """What each query says, in order; `states`, in which each stands, go on with it."""
    found: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.sn, part.k, part.evaluated)):  # as the merge takes them
        if not part.is_shared:
            states[part.query] = part.state
            found += each_of(part)
        else:
            found += [_parted(part, place, number, states) for place, number in enumerate(part.queries.tolist())]
    return sorted(found, key=lambda part: (part.query, part.k))


def _parted(part: Part, place: int, number: int, states: dict[int, QueryState]) -> Part:
    here = part.whose == place
    columns = [column[here] for column in part.columns]
    boolean = None if part.boolean is None or not part.evaluated else bool(here.any())
    emits = part.evaluated and (part.emits or bool(here.any()))
    before = part.joined.get(number) or states[number]
    gap = emits and before.gap
    states[number] = before.among(part.state, before.gap and not gap)
    windows, made = list(part.windows), part.created if any(is_local(column).any() for column in columns) else []
    own = Part.of_one(
        number, part.sn, part.k, part.time, windows, columns, boolean, part.repeated, part.first, states[number], emits,
        made, gap, part.before, part.evaluated,
    )  # fmt: skip
    own.silent_before = part.silent_before
    return own


def observed(store: Store, parts: Sequence[Part]) -> dict[tuple[int, int, bool], Any]:
    """All that parts say, with texts for ids, by query and evaluation; how many evaluations each query had; and the
    state that counts, after the last. Evaluations that say nothing may have a part, or be counted by the next."""
    emitted = {(part.query, part.k, True): _observed(store, part) for part in parts if part.emits}
    counts = Counter[tuple[int, int, bool]]()
    for part in parts:
        counts[part.query, -2, False] += part.evaluations
    last = {part.query: part.state for part in parts}
    return emitted | counts | {(query, -1, False): state for query, state in last.items()}


def _observed(store: Store, part: Part) -> tuple[Any, ...]:
    decode = decoder(part.created, store.terms)
    columns = [
        [decode(np.array([id], np.uint64))[0].decode() if id else None for id in column.tolist()]
        for column in part.columns
    ]
    rows = list(zip(*columns, strict=True)) if columns else []
    emitted = (part.time, rows if not part.created else sorted(rows, key=str), part.boolean, part.emits)
    return *emitted, part.windows, part.repeated, part.first, part.gap, part.before, part.state.evaluated


def filled(chance: random.Random, scene: Scene) -> Scene:
    """The scene with constants where its pattern says %."""
    while "%" in scene.pattern:
        scene = replace(scene, pattern=scene.pattern.replace("%", f":n{chance.randrange(1, 5)}", 1))
    return scene
