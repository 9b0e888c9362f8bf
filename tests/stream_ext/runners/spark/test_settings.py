"""What may be chosen about Spark, and what Spark is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_ext.errors import BadArgument
from stream_ext.runners.spark.settings import SparkSettings, spark_conf, spark_master


@pytest.mark.parametrize(
    ("chosen", "observed"),
    [
        ("local[*]", "local[9, 100]"),
        ("local", "local[3, 100]"),
        ("local[2]", "local[3, 100]"),
        ("local[6, 1]", "local[7, 100]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)
def test_a_local_master_has_more_slots_than_seats_and_retries(chosen: str, observed: str) -> None:
    assert spark_master(SparkSettings(master=chosen), cores=8) == observed


@pytest.mark.parametrize("master", ["yarn", "k8s://host", "spark://elsewhere:7077", "local-cluster[2,1,512]", ""])
def test_a_master_that_is_not_on_this_machine_is_refused_by_name(master: str) -> None:
    with pytest.raises(BadArgument, match="on this machine only"):
        SparkSettings(master=master)


def test_settings_without_meaning_are_refused() -> None:
    for wrong in ({"epoch_s": -1.0}, {"grace_s": 0.0}, {"shards": -1}, {"shards": 1_000}):
        with pytest.raises(BadArgument):
            SparkSettings(**wrong)


def test_a_setting_of_the_user_wins_over_ours() -> None:
    conf = spark_conf(SparkSettings(conf={"spark.ui.enabled": "true"}), Path("/folder"))
    assert conf["spark.ui.enabled"] == "true" and conf["spark.local.dir"] == "/folder"


def test_spark_asks_for_a_secret_and_has_no_port_beyond_this_machine() -> None:
    conf = spark_conf(SparkSettings(), Path("/folder"))
    assert conf["spark.authenticate"] == "true" and conf["spark.ui.enabled"] == "false"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert not any("secret" in name or "token" in name for name in conf)
    cluster = SparkSettings(master="spark://127.0.0.1:7077")
    assert spark_conf(cluster, Path("/folder"))["spark.authenticate"] == "false"  # whether it does is the cluster's


def test_there_is_one_shard_less_than_cores_and_one_at_least() -> None:
    counted = [SparkSettings(master=master).shard_count(cores=4) for master in ("local", "local[2]", "local[*]")]
    assert counted == [1, 1, 3]
    assert SparkSettings(master="local[64]").shard_count() == 8 and SparkSettings(shards=64).shard_count() == 64
    assert SparkSettings(master="spark://127.0.0.1:7077").shard_count() == 1


def test_what_keeps_spark_to_this_machine_cannot_be_set() -> None:
    for name in ("spark.driver.bindAddress", "spark.authenticate", "spark.master"):
        with pytest.raises(BadArgument, match=f"--spark-conf {name}"):
            SparkSettings(conf={name: "x"})
