"""The store, measured beside pyoxigraph on disk and in memory: bulk load, reads, publishing, readers beside a writer.

Each load is a process of its own, so that its CPU time and memory are its own too. What the stores hold is compared
before any time is given. Ratios are ours over the peer's: below one is better."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks import stream_index
from tests.benchmarks.line import publish, social_lines

Figures = dict[str, Any]

KNOWS = {"own": "http://ex/knows", "gen_social": "http://xmlns.com/foaf/0.1/knows"}
_PEER = """
import sys, pyoxigraph as ox
store = ox.Store(sys.argv[2]) if len(sys.argv) > 2 else ox.Store()
store.bulk_load(path=sys.argv[1], format=ox.RdfFormat.N_TRIPLES)
store.flush()
print(len(store))
"""
_FOLLOWER = """
import sys, hbase_store, threading
store = hbase_store.open(sys.argv[1], read_only=True)
print("ready", flush=True)
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
while not stop.wait(0.005):
    store.at().count_all()
"""


_ROUNDS = 2


def run(quick: bool) -> Figures:
    figures: Figures = {}
    # What is compiled once on a machine is no part of the first load.
    subprocess.run([sys.executable, "-m", "endpoint", "warm"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder = Path(name)
        for source, file, lines in _sources(folder, [100_000] if quick else [1_000_000, 10_000_000]):
            part = f"load_{source}_{lines}"
            figures[part] = _answered(part, load(folder, file, source, lines))
            if lines <= 1_000_000:
                figures[f"read_{source}_{lines}"] = _answered("read", read(folder, source))
            _empty(folder)
        figures["publish"] = _answered("publish", publish(folder, 200 if quick else 2000))
        figures["unfolded"] = _answered("unfolded", unfolded(folder))
        figures["readers"] = _answered("readers", readers(folder, 100 if quick else 400))
        if (index := stream_index.measure(folder, 10 if quick else None)) is not None:
            figures["stream_index"] = _answered("stream_index", index)
    return figures


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure, of the largest load that was compared."""
    name = max((name for name in figures if name.startswith("load_")), key=lambda name: figures[name]["lines"])
    loaded, known = figures[name], figures["publish"]
    hop = next(part for part in figures if part.startswith("read_"))
    return (
        f"load_wall_ratio={loaded['wall_ratio']} load_cpu_ratio={loaded['cpu_ratio']} "
        f"disk_ratio={loaded['disk_ratio']} "
        f"load_rss_mb={loaded['rillet']['rss_mb']} point_us={figures[hop]['rillet']['point_us']} "
        f"hop_10k_ms={figures[hop]['rillet']['hop_10k_ms']} decode_100k_ms={figures[hop]['rillet']['decode_100k_ms']} "
        f"edges_10k_known_ms={known['edges_10k_known_ms']} edges_10k_new_ms={known['edges_10k_new_ms']} "
        f"unfolded_ratio={figures['unfolded']['hop_ratio']} readers_cpu_ratio={figures['readers']['cpu_ratio']}"
    )


def _answered(part: str, figures: Figures) -> Figures:
    print(part, json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def _sources(folder: Path, sizes: list[int]) -> Iterator[tuple[str, Path, int]]:
    """Our own generator, and the shared one where it is."""
    shared = Path(os.environ.get("RILLET_SHARED", "../shared")) / "bench" / "gen_social.py"
    if not shared.exists():
        print(f"{shared} is missing: only our own generator is measured", file=sys.stderr)
    for lines in sizes:
        file = folder / "own.nt"
        with file.open("w") as out:  # line by line: a child's memory begins with that of its parent
            out.writelines(f"{line}\n" for line in social_lines(lines))
        yield "own", file, lines
        if shared.exists():
            file = folder / "gen_social.nt"
            subprocess.run([sys.executable, str(shared), str(lines), str(file)], check=True)
            yield "gen_social", file, lines


def _empty(folder: Path) -> None:
    import shutil

    for place in folder.iterdir():
        shutil.rmtree(place) if place.is_dir() else place.unlink()


# ---- loading


def load(folder: Path, file: Path, source: str, lines: int) -> Figures:
    ours = [sys.executable, "-m", "endpoint", "load", str(file), "--store", f"lmdb:{folder / 'rillet'}"]
    found = {
        "rillet": _measured(ours),
        "pyoxigraph_disk": _measured([sys.executable, "-c", _PEER, str(file), str(folder / "pyoxigraph")]),
        "pyoxigraph_memory": _measured([sys.executable, "-c", _PEER, str(file)]),
    }
    for name in ("rillet", "pyoxigraph"):
        key = "rillet" if name == "rillet" else "pyoxigraph_disk"
        found[key]["mb_on_disk"] = round(_disk_bytes(folder / name) / 1e6, 1)
    there = _count(folder / "rillet")
    for peer in ("pyoxigraph_disk", "pyoxigraph_memory"):
        if int(found[peer].pop("said")) != there:
            raise AssertionError(f"{peer} holds another number of triples than we: {there}")
    del found["rillet"]["said"]
    mine, peer_ = found["rillet"], found["pyoxigraph_disk"]
    return {
        "source": source,
        "lines": lines,
        "triples": there,
        **found,
        "wall_ratio": round(mine["wall_s"] / peer_["wall_s"], 3),
        "cpu_ratio": round(mine["cpu_s"] / peer_["cpu_s"], 3),
        "disk_ratio": round(mine["mb_on_disk"] / peer_["mb_on_disk"], 3),
    }


def _measured(command: list[str]) -> Figures:
    """Wall and CPU time and memory of a process, and what it said last."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        answered = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command} ended with {child.returncode}")
    return {
        "wall_s": round(wall_s, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "rss_mb": round(usage.ru_maxrss / 1024),
        "said": answered.split("\n")[-2],
    }


def _disk_bytes(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import hbase_store

    store = hbase_store.open(f"lmdb:{path}")
    try:
        yield store
    finally:
        store.close()


def _count(path: Path) -> int:
    with _opened(path) as store:
        return int(store.at().count_all())


# ---- reading


def read(folder: Path, source: str) -> Figures:
    """Point reads, a hop of 10,000 keys, a scan and a decoding, cold and then cached; and the peers' point reads."""
    import numpy as np

    figures: Figures = {}
    with _opened(folder / "rillet") as store:
        chance = random.Random(5)
        p = int(store.ids([f"<{KNOWS[source]}>".encode()])[0])
        cold, snapshot = time.perf_counter(), store.at()
        keys, values = snapshot.pairs(p)
        figures["scan_cold_ms"] = _ms(cold)
        some = np.array(chance.choices(np.unique(keys).tolist(), k=10_000), np.uint64)
        distinct = np.unique(np.concatenate([keys, values]))[:100_000]
        texts = _timed(figures, "decode_cold_ms", lambda: store.terms(distinct))
        for name, work in {
            "hop_10k_ms": lambda: snapshot.neighbours(p, some),
            "scan_ms": lambda: snapshot.pairs(p),
            "decode_ms": lambda: store.terms(distinct),
        }.items():
            figures[name] = _best(work)
        figures["pairs"], figures["decoded"] = len(keys), len(texts)
        figures["decode_100k_ms"] = round(figures["decode_ms"] * 100_000 / len(texts), 2)
        points = some.tolist()
        figures["point_us"] = round(_best(lambda: [snapshot.values(p, key) for key in points]) / len(points) * 1e3, 2)
        subjects = store.terms(some)
        answers = [len(snapshot.values(p, key)) for key in points]
    return {"rillet": figures, "pyoxigraph": _peer_reads(folder, source, subjects, answers)}


def _peer_reads(folder: Path, source: str, subjects: list[bytes], answers: list[int]) -> Figures:
    import pyoxigraph as ox

    store = ox.Store.read_only(str(folder / "pyoxigraph"))
    knows = ox.NamedNode(KNOWS[source])
    nodes = [ox.NamedNode(subject[1:-1].decode()) for subject in subjects]
    found = [sum(1 for _ in store.quads_for_pattern(node, knows, None)) for node in nodes]
    if found != answers:
        raise AssertionError("pyoxigraph finds other neighbours than we")
    took = _best(lambda: [list(store.quads_for_pattern(node, knows, None)) for node in nodes], 2)
    began = time.perf_counter()
    pairs = sum(1 for _ in store.quads_for_pattern(None, knows, None))
    return {"point_us": round(took / len(nodes) * 1e3, 2), "hop_10k_ms": took, "scan_ms": _ms(began), "pairs": pairs}


def _ms(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)


def _timed(figures: Figures, name: str, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    found = work()
    figures[name] = _ms(began)
    return found


def _best(work: Callable[[], Any], times: int = 7) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(_ms(began))
    return statistics.median(took)


# ---- what is not folded, and who reads beside the writer


def unfolded(folder: Path) -> Figures:
    """A hop and a count over a base of 400,000 edges, without slabs above it and with 100 of 20 edges."""
    import numpy as np

    import hbase_store

    store = hbase_store.open(f"lmdb:{folder / 'unfolded'}", folding=False)
    chance = np.random.default_rng(3)
    batch = store.begin()
    nodes = batch.encode([b"<http://ex/n%d>" % i for i in range(60_000)])
    p = int(batch.encode([b"<http://ex/p>"])[0])
    batch.insert(chance.choice(nodes, 400_000), p, chance.choice(nodes, 400_000), 0)
    store.commit(batch)
    store.fold()
    keys = chance.choice(nodes, 10_000)
    none = _best(lambda: store.at().neighbours(p, keys), 15)
    for _ in range(100):
        batch = store.begin()
        batch.insert(chance.choice(nodes, 20), p, chance.choice(nodes, 20), 0)
        store.commit(batch)
    hundred = _best(lambda: store.at().neighbours(p, keys), 15)
    point = [_best(lambda: [store.at().neighbours(p, keys[i : i + 1]) for i in range(100)])]
    store.close()
    return {
        "hop_none_ms": none,
        "hop_100_ms": hundred,
        "hop_ratio": round(hundred / none, 2),
        "point_100_us": round(point[0] * 10, 2),
    }


def readers(folder: Path, batches: int) -> Figures:
    """The writer's CPU time a batch of 1,000 edges: alone, with ten processes that follow it, and with ten that
    follow another store, which shows how much of it is the doing of the cores that they all share."""
    import hbase_store

    path = folder / "readers"
    store = hbase_store.open(f"lmdb:{path}", folding=False)
    chance = random.Random(7)
    texts = [b"<http://ex/n%d>" % i for i in range(20_000)]

    def write() -> float:
        store.fold()  # so that each round begins alike
        began = time.process_time()
        for _ in range(batches):
            batch = store.begin()
            ids = batch.encode(chance.choices(texts, k=1000))
            batch.insert(ids, batch.encode([b"<http://ex/p>"])[0], ids[::-1], 0)
            store.commit(batch)
        return (time.process_time() - began) / batches * 1e3

    write()
    alone, together, apart = [write()], [], []
    for _ in range(_ROUNDS):
        with _ten(path) as share:
            together.append(write())
            busy = share()
        with _ten(_another(folder)):
            apart.append(write())
        alone.append(write())
    store.close()
    ms = {name: min(took) for name, took in (("alone", alone), ("with_ten", together), ("with_ten_strangers", apart))}
    return {
        **{f"{name}_ms": round(took, 3) for name, took in ms.items()},
        "cpu_ratio": round(ms["with_ten"] / ms["alone"], 2),
        "cpu_ratio_to_strangers": round(ms["with_ten"] / ms["with_ten_strangers"], 2),
        "share_of_a_core_each": round(busy, 3),
    }


def _another(folder: Path) -> Path:
    """A small store that nobody writes to any more."""
    import hbase_store

    path = folder / "another"
    store = hbase_store.open(f"lmdb:{path}")
    batch = store.begin()
    ids = batch.encode([b"<http://ex/n%d>" % i for i in range(1000)])
    batch.insert(ids, ids, ids, 0)
    store.commit(batch)
    store.close()
    return path


@contextmanager
def _ten(path: Path) -> Iterator[Callable[[], float]]:
    """Ten processes that follow a store; the function says what share of a core each has taken since all were ready."""
    command = [sys.executable, "-c", _FOLLOWER, f"lmdb:{path}"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(10)]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    before, began = sum(_cpu_s(process.pid) for process in running), time.perf_counter()
    yield lambda: (sum(_cpu_s(each.pid) for each in running) - before) / (time.perf_counter() - began) / 10
    for process in running:
        process.communicate("stop\n")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
