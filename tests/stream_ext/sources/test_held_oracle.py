"""A source beside our own store gives the emissions that one store with the data of both gives, whatever happens."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_ext.runners.spark.settings import SparkSettings
from tests.stream_ext.opened import emissions_of
from tests.stream_ext.runners.spark.stand_in import DRIVER
from tests.stream_ext.sources.both_services import Both, play

QUERIES = [
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf ?c }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } ?z :partOf :c1 }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } ?z :partOf :c2 }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf+ ?c }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z (:partOf|:near)* ?c }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf ?c } }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf ?c MINUS { ?c :near ?d } } }",
    "SELECT ?t ?c FROM :g1 FROM :g2 { WINDOW :w { ?t :in ?z } ?z :partOf ?c }",
    "SELECT ?c (COUNT(?t) AS ?n) { WINDOW :w { ?t :in ?z } ?z :partOf ?c } GROUP BY ?c",
    "SELECT ?t (COUNT(?c) AS ?n) { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?c :near ?d } GROUP BY ?t",
    "SELECT ?t { WINDOW :w { ?t :in ?z } FILTER NOT EXISTS { ?z :near ?d } }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } OPTIONAL { ?z :partOf ?c . ?c :near ?z } }",
    "SELECT ?t ?p ?o { WINDOW :w { ?t :in ?z } ?z ?p ?o }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g {} }",
    "SELECT ?t ?a ?b { WINDOW :w { ?t :in ?z } ?z :near ?a . ?a :near ?b . ?b :near ?z }",
    "ASK { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?z :near ?c }",
    "SELECT ?z ?c { ?z :partOf ?c . ?c :near ?d }",
    "SELECT ?z ?c { GRAPH ?g { ?z :partOf/:near ?c } }",
]


def unordered(emission: dict[str, Any]) -> dict[str, Any]:
    if "results" not in emission:
        return emission
    return emission | {"results": sorted(map(str, emission["results"]["bindings"]))}


@pytest.mark.parametrize("seed", range(12))
def test_emissions_are_those_of_one_store_with_the_data_of_both(tmp_path: Path, seed: int) -> None:
    play_and_evaluate_again(tmp_path, seed)


@pytest.mark.parametrize("seed", range(100, 103))
def test_it_is_so_where_tasks_of_spark_step_the_queries(tmp_path: Path, seed: int) -> None:
    play_and_evaluate_again(tmp_path, seed, SparkSettings(epoch_s=0.2, warmup_epochs=1, driver_module=DRIVER))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_it_is_so_for_hundreds_of_histories(tmp_path: Path, block: int) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        play_and_evaluate_again(tmp_path / str(seed), seed)


def play_and_evaluate_again(tmp_path: Path, seed: int, spark: SparkSettings | None = None) -> None:
    with closing(Both(tmp_path, seed, spark)) as both:
        names = play(both, QUERIES, seed)
        for name in names:
            for emission in emissions_of(both.split, name)[-2:]:
                again = json.loads(both.split.emission_again(name, emission["emission"]))
                assert unordered(again) == unordered(emission), f"seed {seed}: {names[name]}"
