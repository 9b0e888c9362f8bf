"""Loads by tasks of Spark: the store says what the file says; what a machine does not see is named.

Without Spark: its driver is played by threads that take tasks out of their files, as processes elsewhere would."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from stream_ext.errors import RilletError
from stream_ext.runners.spark.driver_tasks import TaskOrder, TaskReport
from stream_ext.runners.spark.load_on_spark import LoadOnSpark
from stream_ext.runners.spark.tasks import SparkTasks
from stream_ext.writer import load_reading
from stream_ext.writer.load_parts import ReadPart
from stream_ext.writer.load_reading import LoadReading
from tests.stream_ext.writer.test_load_reading import canonical, dataset_of, document


class Played:
    """A driver whose tasks are evaluated in threads."""

    def __init__(self, path: Path) -> None:
        self.path, self.tasks = path, SparkTasks(2)
        self.done: list[int] = []
        self.tasks.begin(self)

    def order(self, order: TaskOrder) -> None:
        if order.file:
            threading.Thread(target=self._run, args=(order,)).start()

    def _run(self, order: TaskOrder) -> None:
        result = self.path / f"result-{order.task}"
        result.write_bytes(pickle.loads(Path(order.file).read_bytes()).run_task())
        Path(order.file).unlink()
        self.done.append(order.task)
        self.tasks.reported(TaskReport(order.task, str(result)))


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Played]:
    (tmp_path / "driver").mkdir()
    yield Played(tmp_path / "driver")


def test_a_file_is_loaded(driver: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_reading, "PART_BYTES", 1500)
    monkeypatch.chdir(tmp_path)
    data = document(3, True)
    Path("all.nq").write_bytes(data)
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)) as store:
        with closing(LoadOnSpark(driver.tasks, 2)) as tasks, LoadReading(True, False, tasks) as reading:
            reading.read_file("all.nq")  # tasks have another working folder
            store.load(reading.end())
        assert dataset_of(store) == canonical(data)
    assert len(driver.done) > 10
    assert not list(driver.path.iterdir())


def test_a_machine_that_does_not_see_the_folder_says_so(driver: Played, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with closing(LoadOnSpark(driver.tasks, 1)) as tasks:
        for folder, file in (("/no/such/folder", str(tmp_path / "file")), (str(tmp_path), "/no/such/file")):
            task = ReadPart(folder, 0, file, 0, 10, False, False)
            with pytest.raises(RilletError, match="does not see /no/such/"):
                tasks.submit(task).result(10)


def test_a_task_that_fails_fails_the_load_with_its_cause(tmp_path: Path) -> None:
    tasks = SparkTasks(1, lambda: "there is no Java")
    with (
        closing(LoadOnSpark(tasks, 1)) as load,
        pytest.raises(RilletError, match=r"there is no Java.*nothing was loaded"),
    ):
        load.submit(ReadPart(str(tmp_path), 0, "x", 0, 1, False, False)).result(10)
