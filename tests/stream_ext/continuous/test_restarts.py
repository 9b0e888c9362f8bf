"""What a query says is to the byte the same, whenever its shard was built anew, and from whatever was saved last.

Two shards step one store side by side: one from the registration on, the other rebuilt between snapshots that a seed
draws, from the state that its last part carried; sometimes both forget the terms that they made. The questions are such
as depend on more than the rows of a moment: on the order of first appearance, and on ties."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.registered_text import query_of
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.emission import body_of, to_json
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.values.vocabulary import decoder
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.low_capacities import low_capacities
from tests.stream_ext.many import Registry, parted
from tests.stream_ext.scene import BASE, EX, REPORTS, Change, Player, Push, Scene, Window, random_scene

IN_W1 = "WINDOW :w1 { ?a :p ?b }"
TEXT = 'WINDOW :w1 { ?a :v ?v } BIND(CONCAT("t", STR(?v)) AS ?t)'
NODE = f'WINDOW :w1 {{ ?a :v ?v }} BIND(IRI(CONCAT("{EX}m", STR(?v))) AS ?t)'
#: Select, pattern (% is where a sub-SELECT's end stands: what orders and cuts it), how many windows.
ASKED: list[tuple[str, str, int]] = [
    ("SELECT ?a ?b", f"{{ SELECT ?a ?b {{ {IN_W1} }} % }}", 1),
    ("SELECT ?b ?k", f"{{ SELECT ?b {{ {IN_W1} }} % }} OPTIONAL {{ ?b :k ?k }}", 1),
    ("SELECT *", f"{{ SELECT DISTINCT ?b {{ {IN_W1} }} % }} {{ SELECT ?a ?b {{ ?a :k ?b }} % }}", 1),
    ("SELECT ?a ?b ?k", f"{IN_W1} {{ SELECT ?b ?k {{ ?b :k ?k }} % }}", 1),
    ("SELECT ?a ?c", f"{{ SELECT ?a ?b {{ {IN_W1} }} % }} {{ SELECT ?b ?c {{ WINDOW :w2 {{ ?b :p ?c }} }} % }}", 2),
    ("SELECT ?a ?n", f"{{ SELECT ?a (COUNT(*) AS ?n) {{ {IN_W1} }} GROUP BY ?a % }}", 1),
    ("SELECT ?a", f"{{ SELECT ?a ?t {{ {TEXT} }} % }}", 1),
    ("SELECT ?k", f"{{ SELECT ?t {{ {NODE} }} % }} OPTIONAL {{ ?t :k ?k }}", 1),
    ("CONSTRUCT { ?a :q ?b }", f"{{ SELECT ?a ?b {{ {IN_W1} }} % }}", 1),
    ("SELECT ?a ?b", f"{{ SELECT ?a ?b {{ {{ SELECT ?a ?b {{ {IN_W1} }} % }} ?b :k ?k }} % }}", 1),
    ("SELECT (COUNT(*) AS ?n)", f"{{ SELECT ?a ?b {{ {IN_W1} }} % }} ?b :k ?k", 1),
    ("SELECT ?a ?b", f"{IN_W1} FILTER NOT EXISTS {{ SELECT ?b {{ WINDOW :w1 {{ ?x :p ?b }} }} % }}", 1),
    ("SELECT ?g ?a", "WINDOW :w1 { ?a :p ?b } GRAPH ?g { SELECT ?b { ?b :k ?k } % }", 1),
    ("ASK", f"{{ SELECT ?a ?b {{ {IN_W1} }} % }} ?b :k :n2", 1),
    ("SELECT ?a ?b", "{ SELECT ?a ?b { ?a :k ?b } % }", 0),
    ("SELECT ?a ?k", "{ SELECT ?a ?b { ?a :k ?b } % } ?b :k ?k", 0),
    ("SELECT ?a", '{ SELECT ?a ?t { ?a :k ?b BIND(CONCAT("t", STRAFTER(STR(?b), "n")) AS ?t) } % }', 0),
]


def asked(seed: int) -> Scene:
    """The windows and steps of a scene, another question, and updates that say terms which queries make."""
    chance = random.Random(f"restarts {seed}")
    scene = random_scene(seed)
    while scene.merged or len(scene.windows) < 2:
        scene = random_scene(chance.randrange(1 << 30))
    select, pattern, count = chance.choice(ASKED)
    while "%" in pattern:
        pattern = pattern.replace("%", _end(chance), 1)
    if "#" not in pattern and select != "ASK" and chance.random() < 0.35:
        pattern += f" }} {_end(chance, ordered=False)} #"
    report = chance.choice(REPORTS) if count else ()
    steps = [_learns(chance, step if count else _update(chance)) for step in scene.steps]
    return replace(scene, windows=scene.windows[:count], select=select, pattern=pattern, report=report, steps=steps)


def _end(chance: random.Random, ordered: bool = True) -> str:
    order = (
        chance.choice(["", "", "ORDER BY ?b ", "ORDER BY DESC(?a) ", "ORDER BY STRLEN(STR(?a)) "]) if ordered else ""
    )
    return order + chance.choice(["LIMIT 1", "LIMIT 2", "LIMIT 3", "OFFSET 1", "OFFSET 1 LIMIT 2", "OFFSET 2 LIMIT 2"])


def _update(chance: random.Random) -> Change:
    """Few things of few come and go."""
    some = [f"<{EX}n{n}>" for n in range(1, 5)]
    quads = [((chance.choice(some), f"<{EX}k>", chance.choice(some)), None) for _ in range(chance.choice([1, 1, 2, 3]))]
    return Change(tuple(quads), ()) if chance.random() < 0.6 else Change((), tuple(quads))


def _learns(chance: random.Random, step: Change | list[Push]) -> Change | list[Push]:
    if not isinstance(step, Change) or chance.random() < 0.5:
        return step
    n = chance.randrange(6)
    term = chance.choice([f'"t{n}"', f"<{EX}m{n}>", f'"{EX}n{n}"'])
    return replace(step, insert=(*step.insert, ((f"<{EX}n1>", f"<{EX}k>", term), None)))


class Side:
    """One of the two shards."""

    def __init__(self, store: Store, query: Query, sn: int) -> None:
        self.store, self.query = store, query
        self.state: QueryState | None = None
        self.number = 0
        self.build(sn)

    def build(self, sn: int) -> None:
        self.shard = Shard(self.store)
        self.shard.build({} if self.state is None else {1: self.state}, sn)
        assert not self.shard.faults, self.shard.faults

    def step(self, sn: int) -> list[bytes]:
        emitted = []
        for part in self.shard.step(sn):
            assert not part.is_shared
            self.state = part.state
            if part.emits:
                self.number += 1
                emitted.append(self._json(part))
        assert not self.shard.faults, self.shard.faults
        return emitted

    def _json(self, part: Part) -> bytes:
        graph = self.query.form is Form.CONSTRUCT
        r2s = "" if self.query.r2s is None else self.query.r2s.value
        variables = list(columns_of(self.query))
        return to_json(body_of(part, "q", self.number, r2s, variables, self.store.terms, graph))


def play(seed: int, folder: Path, scene: Scene) -> int:
    chance = random.Random(f"when {seed}")
    store = hbase_store.open(f"lmdb:{folder}")
    player, query = Player(store, scene), query_of(scene.text, BASE)
    sn = player.register()
    calm, restarted = Side(store, query, sn - 1), Side(store, query, sn - 1)
    emitted = 0
    for step in [None, *scene.steps]:
        if step is not None:
            if chance.random() < 0.6:
                restarted.build(sn)
            sn = player.play(step)
        expected = calm.step(sn)
        found = restarted.step(sn)
        assert found == expected, f"seed {seed}, snapshot {sn}: {scene.text}"
        emitted += len(expected)
    store.close()
    return emitted


def plays(seeds: Sequence[int], folder: Path) -> int:
    return sum(play(seed, folder / str(seed), asked(seed)) for seed in seeds)


@pytest.mark.parametrize("block", range(6))
def test_a_shard_that_is_rebuilt_says_to_the_byte_what_one_says_that_never_was(block: int, tmp_path: Path) -> None:
    assert plays(range(block * 20, block * 20 + 20), tmp_path) > 50


@pytest.mark.parametrize("block", range(2))
def test_it_is_so_where_queries_forget_what_they_made(block: int, tmp_path: Path) -> None:
    with low_capacities():
        assert plays(range(5000 + block * 20, 5000 + block * 20 + 20), tmp_path) > 50


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_thousands_of_rebuilt_shards_say_what_others_say(block: int, tmp_path: Path) -> None:
    plays(range(100_000 + block * 100, 100_000 + block * 100 + 100), tmp_path)


@pytest.mark.parametrize("condition", ["FILTER(?b != :late)", "FILTER(?b NOT IN (:n7, :late))"])
def test_a_term_that_only_a_condition_named_has_its_place_among_others_when_a_stream_brings_it(
    condition: str, tmp_path: Path
) -> None:
    """Rows without ORDER BY stand by the ids of their terms. One network is built before the term comes, one later."""
    scene = Scene([Window("w1", 1, 30, 10)], f"WINDOW :w1 {{ ?a :p ?b {condition} }}", "SELECT ?a", "RSTREAM", {1: 0})
    store = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    registry = Registry.over(store, replace(scene, lateness={1: 0, 2: 0}))
    registry.register(scene.text)
    before, states = Shard(store), dict[int, QueryState]()
    before.build({}, int(store.head()))
    for time, names in ((5, ("n1",)), (12, ("n1",)), (13, ("late", "n8", "n3"))):
        triples = tuple((f"<{EX}{name}>", f"<{EX}p>", f"<{EX}n2>") for name in names)
        parted(before.step(registry.player.play([Push(1, ((time, triples),))])), states)
    after = Shard(store)
    after.build(dict(states), int(store.head()))
    sn = registry.player.play([Push(1, ((25, ((f"<{EX}n9>", f"<{EX}p>", f"<{EX}n2>"),)),))])
    one, other = (
        [decoder(part.created, store.terms)(part.columns[0]) for part in shard.step(sn) if part.emits]
        for shard in (before, after)
    )
    store.close()
    assert one == other
    assert sorted(one[-1]) == [f"<{EX}{name}>".encode() for name in ("late", "n1", "n3", "n8")]
