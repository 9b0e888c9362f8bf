"""The archive of Spark's classes: which one counts, and what a driver is told of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from stream_ext.errors import RilletError
from stream_ext.runners.spark import archive_making, class_archive, driver
from stream_ext.runners.spark.child import DriverProcess
from stream_ext.runners.spark.class_archive import SparkHome
from stream_ext.runners.spark.java import Java
from stream_ext.runners.spark.settings import SparkSettings, spark_conf
from stream_ext.runners.spark.wire import Address

JAVA = Java(Path("/java"), "17", "PATH")


def archived(cache: Path, java: Java = JAVA) -> SparkHome:
    home = class_archive.home_for(java, {"RILLET_CACHE": str(cache)})
    home.link()
    home.archive.write_bytes(b"classes")
    return home


def test_an_archive_is_that_of_this_java_and_this_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"RILLET_CACHE": str(tmp_path)}
    assert class_archive.find(JAVA, environ) is None
    home = archived(tmp_path)
    assert class_archive.find(JAVA, environ) == home
    assert {each.name for each in (home.path / "jars").glob("spark-core*.jar")}
    for other in (replace(JAVA, home=Path("/other")), replace(JAVA, version="21")):
        assert class_archive.find(other, environ) is None
    monkeypatch.setattr(class_archive, "version", lambda name: "9.9")
    assert class_archive.find(JAVA, environ) is None


@pytest.mark.parametrize(
    ("version", "makes", "uses"),
    [
        ("17.0.21", "-XX:ArchiveClassesAtExit=/new", "-XX:SharedArchiveFile={} -Xshare:auto"),
        ("24", "-XX:ArchiveClassesAtExit=/new", "-XX:SharedArchiveFile={} -Xshare:auto"),
        ("25.0.2", "-XX:AOTCacheOutput=/new", "-XX:AOTCache={}"),  # a trimmed Java can make no other
    ],
)
def test_each_java_makes_the_archive_in_its_own_way(version: str, makes: str, uses: str, tmp_path: Path) -> None:
    home = class_archive.home_for(replace(JAVA, version=version), {"RILLET_CACHE": str(tmp_path)})
    assert home.making_options(Path("/new")) == makes
    assert home.java_options.startswith(uses.format(home.archive) + " ")


def test_what_another_user_may_have_written_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = archived(tmp_path)
    if os.getuid() == 0:
        os.chown(home.archive, 12_345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert class_archive.find(JAVA, {"RILLET_CACHE": str(tmp_path)}) is None


def test_homes_of_a_spark_that_was_removed_or_installed_again_are_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = tmp_path / "pyspark"
    (spark / "jars").mkdir(parents=True)
    monkeypatch.setattr(class_archive, "installed_spark", lambda: spark)
    home, gone = archived(tmp_path), archived(tmp_path, replace(JAVA, version="21"))
    (gone.path / "jars").unlink()
    (gone.path / "jars").symlink_to(tmp_path / "removed")
    assert class_archive.outdated(home) == [gone.path]
    os.utime(spark / "jars", (1, 1))
    again = archived(tmp_path)
    assert again.path != home.path and sorted(class_archive.outdated(again)) == sorted([gone.path, home.path])


def told(settings: SparkSettings, environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What a driver is told: its environment, and the settings that it gives to Spark."""
    name = "driver_that_writes"
    (folder / f"{name}.py").write_text(
        "import json, os, sys\n"
        "print(json.dumps({'state': 'failed', 'why': json.dumps([dict(os.environ), sys.stdin.readline()])}))\n"
    )
    given = {**os.environ, **environ, "PYTHONPATH": str(folder)}
    settings = msgspec.structs.replace(settings, driver_module=name)
    process = DriverProcess(settings, lambda folder: Address("127.0.0.1", 1, "t", ""), JAVA, given)
    try:
        (report,) = [each for each in process.reports(30) if each is not None]
        seen, line = msgspec.json.decode(report.why, type=tuple[dict[str, str], str])
        job = msgspec.json.decode(line, type=driver.DriverJob)
        return seen | spark_conf(job.settings, Path(job.folder), java_options=job.java_options)
    finally:
        process.kill()
        process.bury()


def test_a_driver_uses_the_archive_if_there_is_one(tmp_path: Path) -> None:
    environ = {"RILLET_CACHE": str(tmp_path / "cache")}
    without = told(SparkSettings(), environ, tmp_path)
    assert without["SPARK_HOME"] == f"{without['TMPDIR']}/spark"
    assert "SharedArchiveFile" not in without["spark.driver.extraJavaOptions"]
    home = archived(tmp_path / "cache")
    found = told(SparkSettings(), environ, tmp_path)
    assert found["SPARK_HOME"] == str(home.path)
    assert f"-XX:SharedArchiveFile={home.archive} " in found["spark.driver.extraJavaOptions"]
    # A folder with files on the class path would keep Java from using the archive.
    assert "SPARK_CONF_DIR" not in found and not (home.path / "conf").exists()
    secret = told(SparkSettings(conf={"spark.my.password": "p"}), environ, tmp_path)
    assert secret["SPARK_CONF_DIR"] == f"{secret['TMPDIR']}/conf"


def test_an_archive_that_cannot_be_made_says_why_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho no such Java >&2; exit 3\n")
    java.chmod(0o755)
    environ = {**os.environ, "RILLET_CACHE": str(tmp_path / "cache")}
    with pytest.raises(RilletError, match="Java made no archive of the classes of Spark"):
        archive_making.make(replace(JAVA, home=java.parent.parent), environ)
    assert not list((tmp_path / "cache").rglob("*.jsa"))
