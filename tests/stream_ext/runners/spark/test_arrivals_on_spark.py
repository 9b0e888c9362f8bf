"""Queries that are evaluated at arrivals, on the real Spark: they say what they say inline, and what is so.

There are two shards, or four, and what can be divided is divided among them, though none of it is heavy."""

from __future__ import annotations

import json
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pyoxigraph as ox
import pytest

from stream_ext.clock import SystemClock
from stream_ext.service.opened import Limits
from stream_ext.service.service import Service
from tests.integrity.clients import ndjson, operations, rows_of
from tests.stream_ext.arrival_scene import ArrivalOracle, random_arrival_scene
from tests.stream_ext.opened import opened
from tests.stream_ext.runners.spark.kills import divide_all
from tests.stream_ext.runners.spark.test_service_on_spark import SPARK, kill_worker, on_spark
from tests.stream_ext.scene import EX, Change

SEEDS = range(500, 540)
Observed = dict[int, list[dict[str, Any]]]


class Several:
    """Scenes side by side in one store: each has streams of its own, and all see all updates."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.oracles = {seed: ArrivalOracle(random_arrival_scene(seed)) for seed in SEEDS}
        self.true: dict[int, list[tuple[int, object]]] = {seed: [] for seed in SEEDS}
        for seed, oracle in self.oracles.items():
            text = oracle.scene.text.replace(" :q AS", f" q{seed} AS", 1)
            for stream in (1, 2):
                service.create_stream(self.stream(seed, stream), {})
                text = text.replace(f":s{stream}", f"<{self.stream(seed, stream)}>")
            service.register(text)

    @staticmethod
    def stream(seed: int, stream: int) -> str:
        return f"{EX}of{seed}s{stream}"

    def play(self, kills: int | None = None) -> None:
        """A step of each scene, then the next of each; in one of these rounds a worker is killed."""
        for round_, steps in enumerate(zip_longest(*(oracle.scene.steps for oracle in self.oracles.values()))):
            for place, (seed, step) in enumerate(zip(SEEDS, steps, strict=True)):
                if round_ == kills and place == len(SEEDS) // 2:
                    kill_worker(self.service)
                if isinstance(step, Change):
                    self.service.update(operations(step))
                    for oracle in self.oracles.values():
                        oracle.play(0, step)
                for push in step if isinstance(step, list) else ():
                    if push.heartbeat is not None:
                        self.service.heartbeat(self.stream(seed, push.stream), push.heartbeat)
                    else:
                        stream = self.stream(seed, push.stream)
                        self.service.push(stream, ndjson(push), "application/x-ndjson")
                    self.true[seed] += [(time, rows) for _, time, rows in self.oracles[seed].play(0, [push])]

    def observed(self) -> Observed:
        """Without the numbers of snapshots: what is done about a dead worker may be one."""
        self.service._engine.merge.wait(self.service.head(), 60)
        found: Observed = {}
        for seed in SEEDS:
            found[seed] = [json.loads(each.json) for each in self.service.emissions(f"q{seed}", 0, None)]
            for emission in found[seed]:
                del emission["snapshot"]
        return found

    def graphs(self) -> dict[int, tuple[object, object]]:
        """Of each CONSTRUCT the whole answer of its last evaluation, as GET and as its graph has it."""
        self.service._engine.await_evaluated(self.service.head(), 60)
        found: dict[int, tuple[object, object]] = {}
        for seed in SEEDS:
            query = self.service.query_definition(f"q{seed}")
            if query.constructs:
                answer = self.service.latest(query.name)
                assert answer.graph is not None
                latest = sorted(zip(*map(answer.vocabulary.decode, answer.graph), strict=True))
                graph = self.service.query(f"SELECT ?s ?p ?o {{ GRAPH <{query.iri}> {{ ?s ?p ?o }} }}")
                found[seed] = latest, sorted(self.service.decode(graph))
        return found


def rows_told(emission: dict[str, Any]) -> object:
    if "graph" in emission:
        triples = ox.parse(emission["graph"].encode(), format=ox.RdfFormat.N_TRIPLES)
        return Counter((str(each.subject), str(each.predicate), str(each.object)) for each in triples)
    return rows_of(emission)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("shards", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_arrivals_on_spark_say_what_they_say_inline_and_what_is_true(shards: int, tmp_path: Path) -> None:
    limits = Limits(lag_ms=600_000)  # a machine that does other things may be behind
    with opened(tmp_path / "inline", SystemClock(), limits=limits) as service:
        scenes = Several(service)
        scenes.play()
        inline, answers = scenes.observed(), scenes.graphs()
    settings = msgspec.structs.replace(SPARK, shards=shards)
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=settings, limits=limits) as service:
        divide_all(service)
        scenes = Several(service)
        assert on_spark(service)
        scenes.play(kills=5)
        assert on_spark(service)
        spark, answers_on_spark = scenes.observed(), scenes.graphs()
        assert any(service.query_status(query.name)["divided"] for query in service.queries())
    assert spark == inline
    assert answers_on_spark == answers
    assert all(latest == graph for latest, graph in answers.values())
    assert any(latest for latest, _ in answers.values())
    for seed, true in scenes.true.items():
        assert [(each["time"], rows_told(each)) for each in spark[seed]] == true, (
            f"seed {seed}: {scenes.oracles[seed].scene.text}"
        )
    assert sum(map(len, scenes.true.values())) > 100
