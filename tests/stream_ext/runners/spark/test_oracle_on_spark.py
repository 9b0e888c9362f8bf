"""Scenes of the oracle, and a paper's worked example, on the real Spark: it says what inline says, and what is so.

There are two shards, or four, and what can be divided is divided among them, though none of it is heavy."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import msgspec
import pytest

from stream_ext.clock import SystemClock
from stream_ext.service.opened import Limits
from stream_ext.service.service import Service
from tests.integrity.clients import emission_of, ndjson, operations
from tests.stream_ext.opened import emissions_of, opened, values
from tests.stream_ext.ordered import OrderedOracle, ordered_scene
from tests.stream_ext.runners.spark.kills import divide_all
from tests.stream_ext.runners.spark.test_service_on_spark import SPARK, kill_worker, on_spark, without
from tests.stream_ext.scene import EX, Change, Oracle, Push, Scene, random_scene
from tests.stream_ext.service import test_worked_examples as wukong

SEEDS = range(300, 318)
#: Scenes of which the answers depend on the order in which elements came.
ORDERED = range(400, 405)
Observed = dict[str, list[bytes]]


class Several:
    """Scenes side by side in one store: each has streams of its own, and all see all updates."""

    def __init__(self) -> None:
        self.scenes = {seed: random_scene(seed) for seed in SEEDS}
        self.oracles = {seed: Oracle(scene) for seed, scene in self.scenes.items()}
        for seed in ORDERED:
            scene, question = ordered_scene(seed)
            self.scenes[seed], self.oracles[seed] = scene, OrderedOracle(scene, question)
        self.true: dict[int, list[tuple[int, object]]] = {seed: [] for seed in self.scenes}

    def begin(self, service: Service) -> None:
        for seed, scene in self.scenes.items():
            for stream, lateness in scene.lateness.items():
                service.create_stream(_stream(seed, stream), {"lateness": f"{lateness}ms"})
            service.register(_text(seed, scene))

    def play(self, service: Service, meanwhile: dict[int, Callable[[], None]]) -> None:
        """A step of each scene, then the next of each; `meanwhile` is done before the round of that number."""
        for round, steps in enumerate(zip_longest(*(scene.steps for scene in self.scenes.values()))):
            meanwhile.get(round, lambda: None)()
            for seed, step in zip(self.scenes, steps, strict=True):
                if isinstance(step, Change):
                    service.update(operations(step))
                    for oracle in self.oracles.values():
                        oracle.play(0, step)
                for push in step if isinstance(step, list) else ():
                    _push(service, seed, push)
                    self.true[seed] += [(time, rows) for _, time, rows in self.oracles[seed].play(0, [push])]


def _stream(seed: int, stream: int) -> str:
    return f"{EX}of{seed}s{stream}"


def _text(seed: int, scene: Scene) -> str:
    text = scene.text.replace(" :q AS", f" q{seed} AS", 1)
    for stream in scene.lateness:
        text = text.replace(f":s{stream}", f"<{_stream(seed, stream)}>")
    return text


def _push(service: Service, seed: int, push: Push) -> None:
    stream = _stream(seed, push.stream)
    if push.heartbeat is not None:
        service.heartbeat(stream, push.heartbeat)
    else:
        service.push(stream, ndjson(push), "application/x-ndjson")


def observed(service: Service) -> Observed:
    service._engine.merge.wait(service.head(), 60)
    return {query.name: [e.json for e in service.emissions(query.name, 0, None)] for query in service.queries()}


def work_the_example(service: Service) -> None:
    for stream in ("Tweet_Stream", "Like_Stream"):
        timeless = [EX + predicate for predicate in ("po", "ht", "li")]
        service.create_stream(stream, {"timeless": timeless, "graph": EX + "X-Lab"})
    service.update(f"INSERT DATA {{ GRAPH <{EX}X-Lab> {{ {wukong.triples(wukong.STORED)} }} }}")
    wukong.feed(service, 801, 809)
    wukong.beat(service, 809)
    service.register(wukong.QC.format(ex=EX, policy=" T0 0 BOUNDS (]"))
    wukong.feed(service, 810, 810)
    wukong.beat(service, 810)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("shards", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_scenes_and_examples_on_spark_say_what_they_say_inline_and_what_is_true(shards: int, tmp_path: Path) -> None:
    limits = Limits(lag_ms=600_000)  # a machine that does other things may be behind
    with opened(tmp_path / "inline", SystemClock(), limits=limits) as service:
        scenes = Several()
        scenes.begin(service)
        scenes.play(service, {})
        work_the_example(service)
        inline = observed(service)

    settings = msgspec.structs.replace(SPARK, shards=shards)
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=settings, limits=limits) as service:
        divide_all(service)
        scenes = Several()
        scenes.begin(service)

        def killed() -> None:
            kill_worker(service)

        def moved() -> None:
            assert on_spark(service)

        scenes.play(service, {2: moved, 6: killed, 9: moved})
        assert on_spark(service)
        work_the_example(service)
        spark = observed(service)
        example = emissions_of(service, "qc")[0]
        assert any(service.query_status(query.name)["divided"] for query in service.queries())

    for name, emissions in inline.items():  # what is tried apart after a kill makes a snapshot of its own
        assert [without(each, "snapshot") for each in spark[name]] == [without(each, "snapshot") for each in emissions]
    for seed, true in scenes.true.items():
        received = [emission_of(json.loads(one)) for one in spark[f"q{seed}"]]
        assert [(one.time, one.rows) for one in received] == true, f"seed {seed}: {scenes.scenes[seed].text}"
    assert sum(map(len, scenes.true.values())) > 100
    assert (example["time"], values(example)) == (810_000, [("Logan", "Erik", "T-15"), ("Logan", "Erik", "T-17")])
