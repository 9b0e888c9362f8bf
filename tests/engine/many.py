"""Many registered queries of a few templates, over one store; and each of them alone, to compare with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from hbase_store import Store
from stream_ext.catalog import Catalog, CatalogStep, QueryDefinition
from stream_ext.part import Part
from stream_ext.schedule import QueryState, initial_state
from stream_ext.shard import Asked, Shard, constants_of, query_of
from stream_ext.timing import timing_of
from stream_ext.vocabulary import decoder
from tests.engine.scene import BASE, EX, Player, Scene


class AloneShard(Shard):
    """Each query has a network of its own."""

    def _read(self, definition: QueryDefinition, state: QueryState | None, catalog: Catalog) -> Asked | None:
        asked = super()._read(definition, state, catalog)
        return None if asked is None else replace(asked, parametrised=None)


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
        self.used += 1
        definition = QueryDefinition(
            self.used, f"q{self.used}", f"{EX}q{self.used}", text, BASE, (query.r2s or "RSTREAM"), [],
            [window.stream for window in timing.windows], head + 1, self._initial(text), since=head + 1,
        )  # fmt: skip
        return self._publish(self.used, definition, constants_of(query))

    def drop(self, number: int) -> int:
        del self.queries[number]
        return self._publish(number, None)

    def pause(self, number: int) -> int:
        return self._publish(number, msgspec.structs.replace(self.queries[number], paused=True))

    def resume(self, number: int, t0: int | None) -> int:
        state = msgspec.structs.replace(self._initial(self.queries[number].text, t0), t0=t0, gap=True)
        head = int(self.store.head())
        resumed = msgspec.structs.replace(self.queries[number], paused=False, since=head + 1, state=state)
        return self._publish(number, resumed)

    @property
    def store(self) -> Store:
        return self.player.store

    def _initial(self, text: str, t0: int | None = None) -> QueryState:
        timing = timing_of(query_of(text, BASE), self._catalog(), t0)
        return initial_state(timing, self.store.vts(self.store.head()))

    def _catalog(self) -> Catalog:
        return Catalog.read(self.store, int(self.store.head()))

    def _publish(self, number: int, definition: QueryDefinition | None, constants: Sequence[bytes] = ()) -> int:
        batch = self.store.begin()
        batch.encode(constants)
        batch.catalog("query", number, CatalogStep("query", number, definition).body())
        if definition is not None:
            self.queries[number] = definition
        return int(self.store.commit(batch))


def told(store: Store, parts: Sequence[Part]) -> dict[tuple[int, int, bool], Any]:
    """All that parts say, with texts for ids, by query and evaluation."""
    return {(part.query, part.k, part.evaluated): _told(store, part) for part in parts}


def _told(store: Store, part: Part) -> tuple[Any, ...]:
    decode = decoder(part.made, store.terms)
    columns = [
        [decode(np.array([id], np.uint64))[0].decode() if id else None for id in column.tolist()]
        for column in part.columns
    ]
    rows = list(zip(*columns, strict=True)) if columns else []
    state = msgspec.structs.astuple(part.state)
    said = (part.time, rows if not part.made else sorted(rows, key=str), part.boolean, part.emits)
    return *said, part.windows, part.repeated, part.first, part.gap, part.before, state


def filled(chance: random.Random, scene: Scene) -> Scene:
    """The scene with constants where its pattern says %."""
    while "%" in scene.pattern:
        scene = replace(scene, pattern=scene.pattern.replace("%", f":n{chance.randrange(1, 5)}", 1))
    return scene
