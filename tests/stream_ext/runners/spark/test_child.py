"""The folder that Spark gets, and the environment that its processes get."""

from __future__ import annotations

from pathlib import Path

from stream_ext.runners.spark.child import driver_environ
from stream_ext.runners.spark.java import Java
from stream_ext.runners.spark.settings import SparkSettings

JAVA = Java(Path("/java"), "17", "PATH")


def test_the_driver_finds_our_modules_before_others_and_no_other_spark() -> None:
    secrets = {"RILLET_TOKEN": "t", "RILLET_READ_TOKEN": "r"}
    environ = {"SPARK_HOME": "/other", "PYTHONPATH": "/mine", "PATH": "", "KEPT": "yes", **secrets}
    given = driver_environ(SparkSettings(), Path("/folder"), JAVA, environ)
    root, mine = given["PYTHONPATH"].split(":")
    assert Path(root, "stream_ext", "continuous", "shard.py").is_file() and mine == "/mine"
    assert not secrets.keys() & given.keys()
    assert "SPARK_HOME" not in given and given["KEPT"] == "yes"
    assert given["PATH"] and given["JAVA_HOME"] == "/java"


def test_yarn_is_not_to_send_the_zip_of_pyspark_which_our_home_of_spark_has_not() -> None:
    settings = SparkSettings(master="yarn", address="10.0.0.9")
    archives = driver_environ(settings, Path("/folder"), JAVA, {})["PYSPARK_ARCHIVES_PATH"]
    assert Path(archives.removeprefix("local:"), "pyspark", "__init__.py").is_file()
    assert "PYSPARK_ARCHIVES_PATH" not in driver_environ(SparkSettings(), Path("/folder"), JAVA, {})
