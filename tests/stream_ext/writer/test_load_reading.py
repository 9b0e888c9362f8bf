"""Loads in parts: whatever is read and sorted by tasks, the store says what the file says."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import threading
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyoxigraph as ox
import pytest

import hbase_store
from endpoint.trial_hbase.server import HBase
from hbase_store import Store
from hbase_store.errors import BadRow, Unwritable
from hbase_store.layout.slab import TERM_BYTES_MAX
from hbase_store.layout.terms import iri, literal
from hbase_store.writing import load_tasks
from hbase_store.writing.load_files import FolderFailed, LoadFolder
from hbase_store.writing.load_tasks import KeyRange, SortHashes, SortRows
from hbase_store.writing.loading import LINE_BYTES_MAX
from stream_ext.errors import BadData, RilletError
from stream_ext.writer import load_reading
from stream_ext.writer.load_parts import ReadPart, result_of, run_encoded
from stream_ext.writer.load_processes import LoadProcesses
from stream_ext.writer.load_reading import LoadReading
from tests.hbase_store.test_store import G, O, P, add, quads

LONG = literal("x" * 20_000)


class Here:
    """Runs each task when it is submitted, as another process would: from bytes to bytes."""

    most = 2

    def __init__(self) -> None:
        self.done: list[str] = []

    def submit(self, task: Any) -> Future[Any]:
        self.done.append(type(task).__name__)
        future: Future[Any] = Future()
        try:
            future.set_result(result_of(run_encoded(msgspec.msgpack.encode(task))))
        except RilletError as error:
            future.set_exception(error)
        return future

    def rest(self) -> None:
        self.done.append("rest")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_reading, "PART_BYTES", 1500)


def document(seed: int, named: bool) -> bytes:
    """Some six hundred statements, with terms and blank nodes that come again anywhere, in all kinds of lines."""
    chance = random.Random(seed)
    nodes = [f"<http://ex/n{i}>" for i in range(300)] + [f"_:b{i}" for i in range(6)]
    objects = [*nodes, LONG.decode(), '"é"@en', '"\\u00e9"@EN', *(f'"{i}"^^<http://ex/t>' for i in range(40))]
    objects += [f'"{i}"^^<http://www.w3.org/2001/XMLSchema#integer>' for i in range(-3, 30)]
    lines = []
    for i in range(600):
        graph = chance.choice(["", "", " <http://ex/g1>", " <http://ex/g2>", " _:b1"]) if named else ""
        s, p, o = (
            chance.choice(nodes),
            f"<http://ex/p{chance.randrange(9)}>",
            objects[300 + 6] if i == 300 else chance.choice(objects),
        )
        lines.append(f"{s} {p} {o}{graph} ." + chance.choice(["\n", "\n", "\r\n", " # why\n", "\n\n"]))
    return "".join(lines).encode()


@contextmanager
def read(data: bytes, tasks: Any, quads: bool = True, go_on: bool = False) -> Iterator[LoadReading]:
    with LoadReading(quads, go_on, tasks) as reading:
        for start in range(0, len(data), 701):
            reading.read(data[start : start + 701])
        yield reading


def dataset_of(store: Store) -> str:
    return canonical(b"\n".join(b" ".join([*filter(None, quad), b"."]) for quad in quads(store, store.head())))


def canonical(data: bytes) -> str:
    """The same for all documents that say the same, whatever their blank nodes are called."""
    found = ox.Dataset(ox.parse(data, ox.RdfFormat.N_QUADS))
    found.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return "\n".join(sorted(map(str, found)))


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_load_in_parts_says_what_its_document_says(store: Store, seed: int, named: bool) -> None:
    data, tasks = document(seed, named), Here()
    add(store, (iri("http://ex/n1"), P, literal("known before"), None))
    with read(data, tasks) as reading:
        store.load(reading.end())
    expected = canonical(data + b'<http://ex/n1> %b "known before" .' % P)
    assert dataset_of(store) == expected
    store.fold()
    assert dataset_of(store) == expected
    assert {"ReadPart", "SortRows", "SortHashes", "PackPages"} < {*tasks.done}
    assert store.terms(store.ids([LONG])) == [LONG]
    assert sum(store.at().count(int(p)) for p in store.at().predicates().tolist()) == store.at().count_all()


def test_parts_of_a_file_end_where_lines_do(store: Store, tmp_path: Path) -> None:
    data = document(7, True)
    path = tmp_path / "a.nq"
    path.write_bytes(data)
    positions: list[int] = []
    with LoadReading(True, False, Here()) as reading:
        reading.read_file(str(path), lambda: positions.append(reading.position))
        loading = reading.end()
        store.load(loading)
    assert (dataset_of(store), loading.statements) == (canonical(data), 600)
    assert positions == sorted(positions)
    assert positions[-1] == len(data)


def test_what_names_no_graph_goes_where_it_is_sent(store: Store) -> None:
    data = document(3, False)
    with read(data, Here(), quads=False) as reading:
        store.load(reading.end(), graph=G)
    assert store.at().count_all() == 0
    assert dataset_of(store) == canonical(data.replace(b" .", b" %b ." % G))
    assert store.at().graphs().tolist() == store.ids([G]).tolist()


def test_a_long_document_may_say_nothing(store: Store) -> None:
    add(store, (O, P, O, None))
    with read(b"# why\n\n" * 2000, Here()) as reading:
        assert store.load(reading.end()) == 2
    assert quads(store, 2) == {(O, P, O, None)}


@pytest.mark.parametrize("wrong", [0, 311, 599])
def test_a_wrong_line_is_the_one_of_the_file(wrong: int) -> None:
    """Also if a later part is wrong, too, and was read before."""
    lines = document(4, False).replace(b"\n\n", b"\n").split(b"\n")[:600]
    lines[wrong], lines[599] = b"<http://ex/a> oops", b"oops"
    with pytest.raises(BadData) as alone, read(b"\n".join(lines), None) as reading:
        reading.end()
    with pytest.raises(BadData) as caught, read(b"\n".join(lines), Here()) as reading:
        reading.end()
    assert (caught.value.line, caught.value.column) == (alone.value.line, alone.value.column)
    assert (caught.value.line, caught.value.message) == (wrong + 1, alone.value.message)


def test_going_on_tells_of_the_first_wrong_lines_of_the_file(store: Store) -> None:
    lines = document(5, True).split(b"\n")
    lines[20::25] = [b"oops"] * len(lines[20::25])
    data = b"\n".join(lines)
    with read(data, None, go_on=True) as alone, read(data, Here(), go_on=True) as reading:
        loading = reading.end()
        assert alone.end().statements == loading.statements < 600
        assert (reading.bad, reading.reported) == (alone.bad, alone.reported)
        assert [bad.line for bad in reading.reported] == list(range(21, 21 + 250, 25))
        store.load(loading)
    assert store.at().count_all() > 0


def test_a_line_that_is_too_long_is_said_with_its_number() -> None:
    data = document(6, False)
    number = data.count(b"\n") + 1
    data += b"<http://ex/" + b"a" * (LINE_BYTES_MAX + (2 << 20))
    with pytest.raises(Unwritable, match=rf"a line \(number {number}\) has more than"), read(b"", Here()) as reading:
        for start in range(0, len(data), 1 << 20):
            reading.read(data[start : start + (1 << 20)])
        reading.end()


def test_a_term_that_is_published_meanwhile_has_one_id(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch comes when the run is written, and before the load is published."""
    write = hbase_store.writing.load_writer.LoadWriter.write
    writes: list[int] = []

    def interrupted(self: Any, *arguments: Any) -> Any:
        entry = write(self, *arguments)
        writes.append(1)
        if len(writes) == 1:
            add(store, (iri("http://ex/n5"), P, O, None))
        return entry

    monkeypatch.setattr(hbase_store.writing.load_writer.LoadWriter, "write", interrupted)
    data = document(8, True)
    with read(data, Here()) as reading:
        assert store.load(reading.end()) == 2
    assert len(writes) == 2
    assert dataset_of(store) == canonical(data + b"<http://ex/n5> %b %b ." % (P, O))


def test_nothing_is_left_of_a_load_that_fails_or_was_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "rillet-load-killed").mkdir()
    (tmp_path / "rillet-load-killed" / "lock").touch()  # which nobody holds any more
    with pytest.raises(BadData), read(document(9, False) + b"oops", Here()) as reading:
        assert [*tmp_path.iterdir()]
        reading.end()
    assert not [*tmp_path.iterdir()]


def test_processes_read_and_sort_and_one_that_is_killed_costs_nothing(store: Store, tmp_path: Path) -> None:
    data, tasks = document(10, True), LoadProcesses(2, in_server=True)
    path = tmp_path / "a.nq"
    path.write_bytes(data)
    try:
        with LoadReading(True, False, tasks) as reading:
            reading.read_file(str(path))
            for process_id in tasks.process_ids():
                os.kill(process_id, signal.SIGKILL)
            store.load(reading.end())
        assert dataset_of(store) == canonical(data)
        assert tasks.process_ids() == []
    finally:
        tasks.close()


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_tasks_write_their_rows_into_hbase_and_one_that_is_killed_costs_nothing(
    hbase_server: HBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data, tasks, path = document(11, True), LoadProcesses(2), tmp_path / "a.nq"
    path.write_bytes(data)
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/divided_{uuid.uuid4().hex[:8]}"
    written: list[str] = []

    def kill_all(writer: Any, parts: Any, first: int) -> Any:
        """When some tasks have written: the files are there from which these can be run again."""
        parts = iter(parts)
        some = [next(parts)]
        for process_id in tasks.process_ids():
            os.kill(process_id, signal.SIGKILL)
        written.extend(str(name.name) for name in tmp_path.glob("rillet-load-*/rows-*"))
        return write_packed(writer, [*some, *parts], first)

    write_packed = hbase_store.writing.folding.FoldWriter.write_packed
    monkeypatch.setattr(hbase_store.writing.folding.FoldWriter, "write_packed", kill_all)
    with closing(tasks), closing(hbase_store.open(url, folding=False)) as store:
        add(store, (iri("http://ex/n1"), P, literal("known before"), None))
        with LoadReading(True, False, tasks) as reading:
            reading.read_file(str(path))
            store.load(reading.end())
        expected = canonical(data + b'<http://ex/n1> %b "known before" .' % P)
        assert dataset_of(store) == expected
    assert written == [], "no row is on the disk of who loads"
    with closing(hbase_store.open(url, folding=False)) as store:
        store.fold()
        assert dataset_of(store) == expected


def test_a_task_that_cannot_write_to_the_store_says_so(tmp_path: Path) -> None:
    folder = LoadFolder(str(tmp_path))
    folder.write("new-hashes", np.ones(1, np.uint64))
    folder.write("new-ids", np.ones(1, np.uint64))
    task = SortHashes(str(tmp_path), "hashes-0", KeyRange(0, 9), 1, 1, "hbase://127.0.0.1:1/none")
    with pytest.raises(RilletError, match=r"could not write to the store .*127\.0\.0\.1:1.*nothing was loaded"):
        Here().submit(task).result()


def test_a_task_without_room_says_so(tmp_path: Path) -> None:
    task = ReadPart(str(tmp_path / "gone"), 0, str(tmp_path / "a"), 0, 0, False, False)
    (tmp_path / "a").touch()
    with pytest.raises(RilletError, match="TMPDIR"):
        result_of(run_encoded(msgspec.msgpack.encode(task)))


class Held(Here):
    """Of the tasks that sort, one fails, one runs until `ended` is set, and the others have not begun."""

    def __init__(self) -> None:
        super().__init__()
        self.ended, self.sorting = threading.Event(), list[Future[Any]]()

    def submit(self, task: Any) -> Future[Any]:
        if not isinstance(task, SortRows):
            return super().submit(task)
        future: Future[Any] = Future()
        self.sorting.append(future)
        if len(self.sorting) == 1:
            future.set_exception(RilletError("no room"))
        elif len(self.sorting) == 2:
            future.set_running_or_notify_cancel()
            threading.Thread(target=lambda: self.ended.wait() and future.set_result(None), daemon=True).start()
        return future


def test_a_write_that_fails_waits_for_the_tasks_that_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Held()
    waited: list[bool] = []

    def recorded(futures: Iterable[Future[Any]]) -> None:
        waited.extend(future.done() for future in futures)
        tasks.ended.set()
        wait(futures)

    monkeypatch.setattr(load_tasks, "wait", recorded)
    with pytest.raises(RilletError, match="no room"), read(document(1, False), tasks) as reading:
        store.load(reading.end())
    assert waited.count(False) == 1
    assert all(task.done() for task in tasks.sorting)


@pytest.mark.parametrize("removed", [False, True])
def test_a_file_that_is_replaced_during_its_load_is_not_loaded(tmp_path: Path, removed: bool) -> None:
    path, other = tmp_path / "a.nt", tmp_path / "b.nt"
    path.write_bytes(document(1, False))
    other.write_bytes(document(2, False))
    seen: list[int] = []

    def replaced() -> None:
        seen.append(1)
        if len(seen) == 2:
            os.replace(other, path)
            if removed:
                path.unlink()

    with (
        LoadReading(True, True, Here()) as reading,
        pytest.raises(RilletError, match=r"a\.nt was changed while it was loaded"),
    ):
        reading.read_file(str(path), replaced)


def test_a_term_that_is_too_long_is_said_as_without_tasks(store: Store) -> None:
    data = document(1, False) + b'<http://ex/a> <http://ex/p> "' + b"x" * (TERM_BYTES_MAX + 1) + b'" .\n'
    with pytest.raises(BadRow, match="split it") as alone, read(data, None) as reading:
        store.load(reading.end())
    with pytest.raises(BadRow) as caught, read(data, Here()) as reading:
        reading.end()
    assert str(caught.value) == str(alone.value)


def test_terms_that_have_common_numbers_leave_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with read(document(1, False), Here()) as reading:
        reading.end()
        names = {path.name.partition("-")[2] for path in next(tmp_path.iterdir()).glob("*.npy")}
    assert names == {"rows.npy", "predicates.npy"}


def test_lines_that_find_no_room_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with read(document(1, False), Here()) as reading:
        shutil.rmtree(next(tmp_path.iterdir()))
        with pytest.raises(RilletError, match="TMPDIR"):
            reading.read(document(1, False))


def test_a_short_write_says_that_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: Any, **__: Any) -> None:
        raise OSError("5 requested and 2 written")  # as numpy does it, without a number

    monkeypatch.setattr(np, "save", short)
    with pytest.raises(FolderFailed, match=r"No space left on device.*ids\.npy") as caught:
        LoadFolder(str(tmp_path)).write("ids", np.arange(5))
    assert caught.value.errno == errno.ENOSPC


def test_a_load_on_what_is_closed_says_that_it_was_ended() -> None:
    tasks = LoadProcesses(1)
    tasks.close()
    with pytest.raises(RilletError, match="the load was ended"), read(document(1, False), tasks):
        pass


def test_tasks_that_wait_when_all_is_closed_say_that_the_load_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is where it takes a process, another behind it."""
    tasks, taking, closed = LoadProcesses(1), threading.Event(), threading.Event()
    processes = tasks._processes
    take, check = processes._take, processes._threads.shutdown

    def taken(is_new: bool) -> Any:
        taking.set()
        closed.wait()
        return take(is_new)

    def shutdown(**options: Any) -> None:
        closed.set()
        check(**options)

    monkeypatch.setattr(processes, "_take", taken)
    monkeypatch.setattr(processes._threads, "shutdown", shutdown)
    futures = [tasks.submit(ReadPart("", 0, "", 0, 0, False, False)) for _ in range(3)]
    taking.wait()
    tasks.close()
    for future in futures:
        with pytest.raises(RilletError, match="the load was ended"):
            future.result()


def test_a_loading_says_which_graphs_it_names() -> None:
    with read(document(1, True), Here()) as reading, read(document(1, True), None) as alone:
        found = reading.end().graphs()
        assert {*found} == {*alone.end().graphs()} > {b"<http://ex/g1>", b"<http://ex/g2>"}
        assert len(found) == 3
