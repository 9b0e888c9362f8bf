"""What may be chosen about Spark, and what Spark is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from endpoint.serve import ServeSettings
from stream_ext.errors import BadArgument
from stream_ext.runners.spark.settings import SparkSettings, is_secret, spark_conf, spark_master


@pytest.mark.parametrize(
    ("chosen", "observed"),
    [
        ("local[*]", "local[10, 100]"),
        ("local", "local[3, 100]"),
        ("local[2]", "local[4, 100]"),
        ("local[6, 1]", "local[8, 100]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)
def test_a_local_master_has_more_slots_than_seats_and_retries(chosen: str, observed: str) -> None:
    assert spark_master(SparkSettings(master=chosen, shards=0), cores=8) == observed


@pytest.mark.parametrize("master", ["mesos://host", "spark://host", "spark://a:1,b", "local-cluster[2,1,512]", ""])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(BadArgument, match=r"give local, local\[N\]"):
        SparkSettings(master=master)


@pytest.mark.parametrize(
    "master", ["yarn", "k8s://https://host:6443", "spark://elsewhere:7077", "spark://127.0.0.1:1,x:2"]
)
def test_a_master_on_other_machines_needs_an_address_that_they_reach(master: str) -> None:
    for address in ("", "127.0.0.1", "localhost:90"):
        with pytest.raises(BadArgument, match="--spark-address HOST"):
            SparkSettings(master=master, address=address)
    settings = SparkSettings(master=master, address="10.0.0.9:9400")
    assert settings.listens_on == ("10.0.0.9", 9400) and settings.is_reached_from_other_machines
    conf = spark_conf(settings, Path("/folder"))
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "10.0.0.9"
    assert SparkSettings(master=master, address="[fd00::1]:94").listens_on == ("fd00::1", 94)


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.9:x", "10.0.0.9:70000", "a:1:2", "[::]", "a b"])
def test_an_address_that_nobody_could_connect_to_is_refused(address: str) -> None:
    with pytest.raises(BadArgument, match="--spark-address"):
        SparkSettings(master="spark://elsewhere:7077", address=address)


def test_a_package_is_found_from_the_folder_of_spark_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package.tar.gz").touch()
    monkeypatch.chdir(tmp_path)
    settings = SparkSettings(master="spark://127.0.0.1:7077", package="package.tar.gz")
    monkeypatch.chdir("/")
    sent = msgspec.json.decode(msgspec.json.encode(settings), type=SparkSettings)
    assert spark_conf(sent, Path("/f"))["spark.archives"] == f"{tmp_path}/package.tar.gz#rillet_package"


def test_what_is_for_a_cluster_is_refused_without_one(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match=r"--spark-address 10\.0\.0\.9: it is for"):
        SparkSettings(address="10.0.0.9")
    (package := tmp_path / "package.tar.gz").touch()
    with pytest.raises(BadArgument, match="it is for a --spark-master that is a cluster"):
        SparkSettings(package=str(package))
    with pytest.raises(BadArgument, match="there is no such file"):
        SparkSettings(master="spark://127.0.0.1:7077", package=f"{package}x")
    conf = spark_conf(SparkSettings(master="spark://127.0.0.1:7077", package=str(package), shards=3), Path("/folder"))
    assert conf["spark.archives"] == f"{package}#rillet_package" and conf["spark.cores.max"] == "5"


def test_a_cluster_has_its_own_secret_and_no_command_line_shows_it() -> None:
    conf = {"spark.authenticate": "true", "spark.authenticate.secret": "x"}
    assert (
        spark_conf(SparkSettings(master="spark://127.0.0.1:7077", conf=conf), Path("/f"))["spark.authenticate"]
        == "true"
    )
    assert [name for name in conf if is_secret(name)] == ["spark.authenticate.secret"]
    assert is_secret("spark.ssl.keyStorePassword") and is_secret("spark.kubernetes.authenticate.oauthToken")


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


def test_there_is_a_shard_for_each_core_unless_their_number_is_given() -> None:
    masters = ("local", "local[2]", "local[*]", "local[64]", "spark://127.0.0.1:7077")
    assert [SparkSettings(master=each, shards=0).shard_count(cores=4) for each in masters] == [1, 2, 4, 8, 1]
    assert [SparkSettings(shards=given).shard_count(cores=1) for given in (0, 1, 64)] == [1, 1, 64]


def test_a_server_has_a_shard_for_each_core() -> None:
    assert ServeSettings("lmdb:x").spark().shards == 0


def test_what_keeps_spark_to_this_machine_cannot_be_set() -> None:
    for name in ("spark.driver.bindAddress", "spark.authenticate", "spark.master"):
        with pytest.raises(BadArgument, match=f"--spark-conf {name}"):
            SparkSettings(conf={name: "x"})
