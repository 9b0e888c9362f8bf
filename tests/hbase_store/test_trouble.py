"""What goes wrong around a store: disk, machine, permissions, numbers. Each says what it is, and harms nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

import hbase_store
from hbase_store import Loading
from hbase_store.errors import Corrupt, IdsExhausted, StoreError
from hbase_store.layout.terms import DATA_MASK, iri
from hbase_store.verification import verify
from stream_ext.rdf import careful_rows
from tests.hbase_store.test_store import G, O, P, S, add, quads


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with two runs, a slab above, and a stream of its own process."""
    address = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(address, folding=False)
    for number in range(3):
        add(store, (S, P, iri(f"http://ex/{number}"), None), (S, P, O, G))
        if number < 2:
            store.fold()
    store.close()
    return address


def folder_of(url: str) -> Path:
    return Path(url.removeprefix("lmdb:"))


def crashed(url: str, boot: str = "another boot") -> None:
    """As the lock file is found after a crash of the machine: the writer never gave it back."""
    (folder_of(url) / "writer.lock").write_text(json.dumps({"address": "", "pid": 7, "boot": boot}))


def changed(url: str, table: str, change: Callable[[bytes], bytes | None], place: int = 0) -> str:
    """Changes what stands in one row of a table, or takes the row away; its key."""
    with lmdb.open(str(folder_of(url)), max_dbs=20) as environment, environment.begin(write=True) as transaction:
        database = environment.open_db(table.encode(), txn=transaction)
        key, value = list(transaction.cursor(db=database))[place]
        new = change(bytes(value))
        transaction.put(key, new, db=database) if new is not None else transaction.delete(key, db=database)
        return bytes(key).hex()


def flipped(value: bytes) -> bytes:
    return value[:20] + bytes([value[20] ^ 1]) + value[21:]


# ---- the machine goes down


@pytest.mark.parametrize("table", ["sn", "slab", "run", "runindex", "runs", "i2t"])
def test_after_a_crash_of_the_machine_all_checksums_are_looked_at(url: str, table: str) -> None:
    key = changed(url, table, flipped)
    crashed(url)
    for read_only in (False, True):
        with pytest.raises(Corrupt, match=f"the machine went down while .* row {key} of table {table} is wrong"):
            hbase_store.open(url, read_only=read_only)
    assert "another boot" in (folder_of(url) / "writer.lock").read_text(), "the next one looks again"


def test_after_a_crash_of_the_machine_a_lost_block_is_missed(url: str) -> None:
    changed(url, "run", lambda _: None)
    crashed(url)
    with pytest.raises(Corrupt, match=r"the machine went down .* run \d+ has \d+ of its \d+ blocks"):
        hbase_store.open(url)


def test_a_whole_store_is_looked_at_once_after_a_crash_of_the_machine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    monkeypatch.setattr("hbase_store.opening.verify", lambda kv: looked.append(verify(kv)))
    hbase_store.open(url).close()
    assert looked == [], "nothing has crashed"
    crashed(url)
    store = hbase_store.open(url)
    assert len(looked) == 1
    assert looked[0] > 10
    assert len(quads(store, 3)) == 4
    store.take_lease("")
    store.close()
    hbase_store.open(url).close()
    assert len(looked) == 1


def test_a_process_that_is_killed_is_no_crash_of_the_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import os, hbase_store, sys\n"
        "store = hbase_store.open(sys.argv[1]); store.take_lease(''); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, url], check=False).returncode == -9
    monkeypatch.setattr("hbase_store.opening.verify", lambda kv: pytest.fail("it is the same boot"))
    assert json.loads((folder_of(url) / "writer.lock").read_text())["boot"]
    hbase_store.open(url).close()


def test_what_is_synced_before_it_is_acknowledged_needs_no_look(url: str) -> None:
    store = hbase_store.open(url, durability="power")
    store.take_lease("")
    assert json.loads((folder_of(url) / "writer.lock").read_text())["boot"] == ""
    store.close()


COMMITS = """
import sys, hbase_store
store = hbase_store.open(sys.argv[1], durability=sys.argv[2], folding=False)
store.take_lease("")
print("begin", file=sys.stderr, flush=True)
for number in range(5):
    batch = store.begin()
    batch.insert(*batch.encode([b"<a:s>", b"<a:p>", b'"%d"' % number]), 0)
    store.commit(batch)
    print("committed", file=sys.stderr, flush=True)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace shows what is synced")
@pytest.mark.parametrize(("durability", "syncs"), [("power", True), ("process", False)])
def test_power_syncs_each_commit_before_it_is_acknowledged(tmp_path: Path, durability: str, syncs: bool) -> None:
    trace = tmp_path / "trace"
    argv = [sys.executable, "-c", COMMITS, f"lmdb:{tmp_path}/store", durability]
    calls = "trace=fsync,fdatasync,msync,write"
    done = subprocess.run(["strace", "-f", "-o", str(trace), "-e", calls, *argv], capture_output=True, check=False)
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    commits = trace.read_text().split('"begin')[1].split('"committed')[:5]
    assert len(commits) == 5
    assert all(("sync(" in commit) == syncs for commit in commits)


# ---- the disk is full

FULL = """
import resource, sys, hbase_store
from hbase_store.errors import StoreUnavailable
store = hbase_store.open(sys.argv[1], folding=False)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
committed = 0
while True:
    batch = store.begin()
    ids = batch.encode([b"<a:s>", b"<a:p>", *(b'"%d %d"' % (committed, i) for i in range(2000))])
    batch.insert(ids[0], ids[1], ids[2:], 0)
    try:
        store.commit(batch)
    except StoreUnavailable as error:
        print(error)
        break
    committed += 1
assert store.refresh() == committed
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.commit(batch) == committed + 1
store.fold()
assert store.at().count(int(ids[1])) == 2000 * (committed + 1)
store.close()
"""


def test_a_full_disk_is_reported_and_the_batch_can_be_committed_when_there_is_room(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, f"lmdb:{tmp_path}/store"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no space is left for" in done.stdout
    assert "free some space, and try again" in done.stdout


# ---- the file is cut off


def cut(url: str, to: float) -> int:
    """As a copy that was broken off; below 0: so many pages are missing."""
    file = folder_of(url) / "data.mdb"
    size = file.stat().st_size
    size = (int(size * to) & -4096) if to >= 0 else size + int(to) * 4096
    os.truncate(file, size)
    return size


OPENS = """
import sys, hbase_store
from hbase_store.errors import Corrupt
try:
    store = hbase_store.open(sys.argv[1], read_only=sys.argv[2] == "True")
    print(store.at().count_all())
    if sys.argv[2] == "False":
        for number in range(20):
            batch = store.begin()
            batch.insert(*batch.encode([b"<a:s>", b"<a:p>", b'"%d"' % number]), 0)
            store.commit(batch)
        print("written")
except Corrupt as error:
    print(error)
"""


def test_no_page_that_is_missing_kills_a_process(url: str) -> None:
    file = folder_of(url) / "data.mdb"
    whole = file.read_bytes()
    outcomes = []
    for pages in range(1, 5):
        file.write_bytes(whole)
        cut(url, -pages)
        done = subprocess.run([sys.executable, "-c", OPENS, url, "False"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (pages, done.stderr)
        outcomes.append(done.stdout)
    assert all("written" in outcome or "cut off" in outcome or "cannot be read" in outcome for outcome in outcomes)


@pytest.mark.parametrize("to", [0, 0.4, 0.7])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_was_cut_off_is_reported_to_be_so(url: str, to: float, read_only: bool) -> None:
    size = cut(url, to)
    argv = [sys.executable, "-c", OPENS, url, str(read_only)]  # which was killed by SIGBUS
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered = "is empty, but it was a store" if size == 0 else rf"has {size} bytes, but \d+ are in use: it was cut off"
    assert re.search(answered, done.stdout), done.stdout


SHRINKS = """
import os, sys, hbase_store
from hbase_store.errors import Corrupt
store = hbase_store.open(sys.argv[1], folding=False)
file = sys.argv[1].removeprefix("lmdb:") + "/data.mdb"
os.truncate(file, 16384)
for act in (lambda: store.refresh(), lambda: store.begin(), lambda: store.kv.put_many([])):
    try:
        act()
    except Corrupt as error:
        print(error)
os._exit(0)
"""


def test_a_file_that_becomes_shorter_under_a_running_process_is_reported_to_do_so(url: str) -> None:
    argv = [sys.executable, "-c", SHRINKS, url]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("has 16384 bytes, but") >= 2


def test_pages_at_the_end_that_nobody_uses_may_be_missing(url: str) -> None:
    """They were taken and let go again in one transaction, and never written."""
    environment = lmdb.open(str(folder_of(url)), max_dbs=20)
    last, page = environment.info()["last_pgno"], environment.stat()["psize"]
    with environment.begin(write=True) as transaction:
        database = environment.open_db(b"slab", txn=transaction)
        for big in range(100):
            transaction.put(b"passing %d" % big, bytes(100_000), db=database)
        for big in range(100):
            transaction.delete(b"passing %d" % big, db=database)
    grown = environment.info()["last_pgno"]
    environment.close()
    assert grown > last + 100
    size = (folder_of(url) / "data.mdb").stat().st_size
    os.truncate(folder_of(url) / "data.mdb", min(size, (last + 60) * page))
    store = hbase_store.open(url)
    assert len(quads(store, 3)) == 4
    add(store, (S, P, iri("http://ex/more"), None))
    assert len(quads(store, 4)) == 5
    store.close()


# ---- permissions


def as_nobody(work: Callable[[], object]) -> str:
    """What it raises in a forked child who may do less than root; "" if nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answered = ""
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
        except StoreError as error:
            answered = f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001  # it must not run on as a second test process
            answered = f"unexpected: {error!r}"
        os.write(writing, answered.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answered = pipe.read()
    os.waitpid(child, 0)
    return answered


def opened_up(folder: Path) -> None:
    """The folders that pytest made are for their owner alone."""
    for parent in [folder, *folder.parents]:
        if parent.owner() == folder.owner() and parent != Path("/") and parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o055)


def test_a_read_only_folder_says_so(url: str, tmp_path: Path) -> None:
    opened_up(tmp_path)
    folder = folder_of(url)
    (tmp_path / "new").mkdir(mode=0o555)
    answered = as_nobody(lambda: hbase_store.open(f"lmdb:{tmp_path}/new"))
    assert answered.startswith("StoreUnavailable: ")
    assert "cannot be opened for writing; check its permissions" in answered
    folder.chmod(0o555)
    for name in ("data.mdb", "lock.mdb"):
        (folder / name).chmod(0o444)
    assert "cannot be opened for writing; check its permissions" in as_nobody(lambda: hbase_store.open(url))
    answered = as_nobody(lambda: hbase_store.open(url, read_only=True))
    assert "reading needs write access to lock.mdb in it" in answered
    (folder / "lock.mdb").chmod(0o666)
    answered = as_nobody(lambda: hbase_store.open(url, read_only=True).at(3).graphs())
    assert "writer.lock cannot be read; check its permissions" in answered
    (folder / "writer.lock").chmod(0o444)
    assert as_nobody(lambda: hbase_store.open(url, read_only=True).at(3).graphs()) == ""


# ---- numbers


@pytest.mark.parametrize("counter", ["term", "blank"])
def test_a_store_without_numbers_left_says_so(tmp_path: Path, counter: str) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path}/store")
    add(store, (S, P, O, None))
    store.close()
    store = hbase_store.open(store.url)
    store.kv.allocate(counter, DATA_MASK - 10_000)
    batch = store.begin()
    with pytest.raises(IdsExhausted, match=f"all {DATA_MASK} numbers for a {counter}"):
        for i in range(10_000):
            batch.encode([iri(f"http://ex/{i}")]) if counter == "term" else batch.blanks(1)
    add(store, (S, P, S, None))  # of terms that it has
    assert quads(store, 2) == {(S, P, O, None), (S, P, S, None)}
    loading = Loading(lambda line, number: careful_rows(line, number, False))
    loading.read(b"_:a <http://ex/p> <http://ex/new> .\n")
    with pytest.raises(IdsExhausted):
        store.load(loading)
    assert quads(store, store.head()) == {(S, P, O, None), (S, P, S, None)}
    store.close()
