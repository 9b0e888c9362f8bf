"""Questions in CQELS-QL, evaluated at every arrival.

LSBench's, over time and over windows that count, with the streams' elements in the order of their times; CityBench's
and SRBench's texts as they are written, over their data (where a copy is at hand: RILLET_SHARED); joins of two to
eight counted windows; and many that watch. The rows that LSBench's Q1, Q2, Q6 and Q10 emit are counted by plain loops,
too."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.syntax import parse
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from tests.benchmarks.replay import Replay, Stepped, observed
from tests.benchmarks.stream_questions import PREFIXES
from tests.benchmarks.tape import Batch, Source, Tape
from tests.stream_ext.service.twins_of_texts import NO_TWIN, TWINS

Figures = dict[str, Any]

_A_BATCH, _SLOW = 13_000, 260
_POSTS, _LIKES, _PHOTOS, _PHOTO_LIKES = "poststream", "likedpoststream", "photostream", "likedphotostream"


def _over(stream: str, window: str, pattern: str) -> str:
    return f"STREAM <http://deri.org/{stream}> [{window}] {{ {pattern} }}"


#: For windows of time, and for others: each window's length (a minute, a second, ...) is one of its own.
QUESTIONS: dict[str, tuple[str, tuple[tuple[str, str, str], ...], str]] = {
    "Q1": ("SELECT ?p ?o", ((_POSTS, "RANGE 1s", "sibu:u984 ?p ?o"),), ""),
    "Q2": (
        "SELECT ?post", ((_POSTS, "RANGE 1s", "?user sioc:creator_of ?post"),), "?user sioc:account_of sibp:p984",
    ),
    "Q3": (
        "SELECT ?friend ?post", ((_POSTS, "RANGE 5s", "?friend sioc:creator_of ?post"),),
        "?user foaf:knows ?friend . ?user sioc:account_of sibp:p984",
    ),
    "Q4": (
        "SELECT ?post1 ?post2 ?tag",
        (
            (
                _POSTS, "RANGE 1s",
                "?post1 sib:hashtag ?tag . ?user sioc:creator_of ?post1 . ?post2 sib:hashtag ?tag . "
                "?user sioc:creator_of ?post2 FILTER(?post1 != ?post2)",
            ),
        ),
        "",
    ),
    "Q5": (
        "SELECT ?friend1 ?friend2 ?photo",
        (
            (_PHOTO_LIKES, "RANGE 100ms", "?friend2 sib:like ?photo"),
            (_PHOTOS, "RANGE 1m", "?photo sib:usertag ?friend1"),
        ),
        "?friend1 foaf:knows ?friend2",
    ),
    "Q6": (
        "SELECT ?user ?friend ?post ?channel",
        ((_POSTS, "RANGE 1m", "?channel sioc:container_of ?post"), (_LIKES, "RANGE 100ms", "?friend sib:like ?post")),
        "?user foaf:knows ?friend . ?user sioc:subscriber_of ?channel",
    ),
    "Q10": ("SELECT ?tag (COUNT(?post) AS ?n)", ((_POSTS, "RANGE 1s", "?post sib:hashtag ?tag"),), ""),
}  # fmt: skip
_BLANK = re.compile(r"_:(\w+)")
#: Compared with plain loops.
_CHECKED = ("Q1", "Q2", "Q6", "Q10")


def text_of(name: str, window: str | None = None) -> str:
    """`window`: in place of each of its own."""
    select, windows, stored = QUESTIONS[name]
    parts = " ".join(_over(stream, window or own, pattern) for stream, own, pattern in windows)
    end = " GROUP BY ?tag" if name == "Q10" else ""
    return f"{PREFIXES}REGISTER QUERY {name} AS {select} WHERE {{ {parts} {stored} }}{end}"


def lsbench(data: Source, quick: bool, folder: Path) -> Figures:
    """Over time, and over the last 1,000 triples."""
    figures: Figures = {}
    for kind, window in (("time", None), ("count", "TRIPLES 1000")):
        for name, (_, windows, _) in QUESTIONS.items():
            tape = Tape(data, tuple(dict.fromkeys(stream for stream, *_ in windows)))
            one_by_one = _why(text_of(name, window)) is not None
            triples = _SLOW if one_by_one else _A_BATCH // (10 if quick else 1)
            batches = tape.dense(triples, 10 if quick else 40, max(1, 1000 * triples // _A_BATCH))
            replay = Replay(folder / f"{kind}{name}", data, tape, batches, interleaved=True)
            stepped = replay.run([text_of(name, window)], retained=())
            replay.close()
            figures[f"{name}_{kind}"] = {**_observed(stepped, batches), "one_by_one": one_by_one}
            if window is None and name in _CHECKED:
                rows = sum(map(sum, (each.rows for each in stepped)))
                expected = _expected(name, data, tape, batches)
                if rows != expected:
                    raise AssertionError(f"{name} emitted {rows} rows, and a loop over the elements {expected}")
                figures[f"{name}_{kind}"]["checked_rows"] = rows
    return figures


def _why(text: str) -> str | None:
    unit = parse(text, "http://ex/")
    assert isinstance(unit, Register)
    return why_one_by_one(unit.query, logic_of(unit.query))


def _observed(stepped: Sequence[Stepped], batches: Sequence[Batch]) -> Figures:
    figures = observed(stepped, batches)
    half = len(stepped) // 2
    cpu = sum(each.cpu for each in stepped[half:])
    seconds = sum(each.seconds for each in stepped[half:])
    rows = sum(sum(each.rows) for each in stepped[half:])
    evaluations = {"evaluations_per_s": round(figures["evaluations"] / seconds), "rows": rows}
    return figures | evaluations | {"evaluations_per_cpu_s": round(figures["evaluations"] / cpu)}


# ---- the same with plain loops ----------------------------------------------------------------------------------


def _expected(name: str, data: Source, tape: Tape, batches: Sequence[Batch]) -> int:
    lines = list(_lines(tape, batches))
    if name == "Q10":  # at each time the tags that get a post, each with its new count; each batch is a push
        tags = [
            (batch, time, o)
            for batch, each in enumerate(batches)
            for _, _, time, _, p, o in _lines(tape, [each])
            if p.endswith(b"/hashtag>")
        ]
        return len(set(tags))
    if name == "Q1":
        return sum(s.endswith(b"/u984>") for _, _, _, s, _, _ in lines)
    stored = [line.split(b" ", 2) for line in data.stored]
    if name == "Q2":
        users = {s for s, p, o in stored if p.endswith(b"account_of>") and o.endswith(b"/p984>")}
        return sum(s in users for _, _, _, s, p, _ in lines if p.endswith(b"creator_of>"))
    knows, readers = defaultdict(Counter), defaultdict(Counter)  # type: ignore[var-annotated]
    for s, p, o in stored:
        if p.endswith(b"/knows>"):
            knows[o][s] += 1
        elif p.endswith(b"subscriber_of>"):
            readers[o][s] += 1
    posts, likes = defaultdict(list), defaultdict(list)  # type: ignore[var-annotated]
    found = 0
    for _, stream, time, s, p, o in lines:
        if stream == 0 and p.endswith(b"container_of>"):
            posts[o].append((time, s))
            pairs = [(s, friend) for at, friend in likes[o] if at > time - 100]
        elif stream == 1 and p.endswith(b"/like>"):
            likes[o].append((time, s))
            pairs = [(channel, s) for at, channel in posts[o] if at > time - 60_000]
        else:
            continue
        for channel, friend in pairs:
            found += sum(count * knows[friend][user] for user, count in readers[channel].items())
    return found


def _lines(tape: Tape, batches: Sequence[Batch]) -> Iterator[tuple[int, int, int, bytes, bytes, bytes]]:
    for batch in batches:
        columns = (batch.element.tolist(), batch.stream.tolist(), batch.time.tolist(), *batch.triples.tolist())
        for element, stream, time, *triple in zip(*columns, strict=True):
            s, p, o = (tape.texts[place] for place in triple)
            yield element, stream, time, s, p, o


# ---- texts of others over their data ---------------------------------------------------------------------------


def texts_of_others(quick: bool, folder: Path) -> Figures:
    root = Path(os.environ.get("RILLET_SHARED", "../shared"), "data")
    figures: Figures = {}
    if not root.is_dir():
        return {"missing": f"{root} is not there"}
    for benchmark, texts, most in (
        ("citybench", "cqels_query/Q*.txt", 8_000),
        ("srbench", "queries_cqels/q*.sparql", 100_000),
    ):
        for path in sorted((root / benchmark).glob(texts)):
            name = f"{benchmark}_{path.stem}"
            text, most = path.read_text(), 2_000 if quick else most
            figures[name] = _text_of_others(root, path, text, most, folder / name)
            twin = TWINS.get(f"data/{path.relative_to(root)}", NO_TWIN)
            if twin is not NO_TWIN and twin.plays_the_same_data:
                changed = _text_of_others(root, path, twin.of(text), most, folder / f"{name}_twin")
                figures[f"{name}_twin"] = changed
    return figures


def _text_of_others(root: Path, path: Path, text: str, most: int, folder: Path) -> Figures:
    try:
        query = parse(text, "http://ex/")
    except Exception as error:  # noqa: BLE001  texts that are at fault are listed with their fault
        return {"refused": str(error).split("\n")[0]}
    if not isinstance(query, Query) or query.dialect is not Dialect.CQELS:
        return {"refused": "no CQELS-QL"}
    streams = tuple(dict.fromkeys(window.stream.iri or "" for window in query.windows))
    why = why_one_by_one(query, logic_of(query))
    data = Source("others", _stored(root, path), {iri: list(_recorded(root, iri, most)) for iri in streams})
    if not any(data.streams.values()):
        return {"refused": "its streams have no data"}
    tape = Tape(data, streams)
    batches = tape.as_recorded(200)
    replay = Replay(folder, data, tape, batches, interleaved=True)
    stepped = replay.run([text], retained=())
    replay.close()
    return {**_observed(stepped, batches), "one_by_one": why}


def _stored(root: Path, path: Path) -> list[bytes]:
    import pyoxigraph as ox

    found: list[bytes] = []
    if path.parts[-3] == "srbench":
        with gzip.open(root / "srbench/tnt/stations_static.nt.gz", "rb") as lines:
            return [line.rstrip(b" .\n") for line in lines if line.strip()]
    for name in ("SensorRepository.n3", "AarhusCulturalEvents.n3"):
        document = (root / "citybench/dataset" / name).read_bytes()
        quads = ox.parse(document, format=ox.RdfFormat.TURTLE, lenient=True)
        triples = (f"{quad.subject} {quad.predicate} {quad.object}" for quad in quads)
        found += [_BLANK.sub(r"<urn:blank:\1>", triple).encode() for triple in triples]
    return list(dict.fromkeys(found))


def _recorded(root: Path, iri: str, most: int) -> Iterator[tuple[int, bytes]]:
    name = iri.partition("#")[2]
    path = root / (f"citybench/{name}.tnt.gz" if name else "srbench/tnt/lsd9h_observations.tnt.gz")
    if not path.is_file():
        return
    with gzip.open(path, "rb") as lines:
        for number, line in enumerate(lines):
            if number >= most:
                return
            time, _, triple = line.rstrip(b" .\n").partition(b"\t")
            yield int(time), triple


# ---- joins of counted windows -----------------------------------------------------------------------------------


def counted_joins(quick: bool, folder: Path) -> Figures:
    """Windows of the last 10,000 triples of as many streams, joined by one key; and what the state takes."""
    figures: Figures = {}
    most, count = (1_000, 4_000) if quick else (10_000, 60_000)
    chance = np.random.default_rng(1)
    for ways in (2, 3, 4, 6, 8):
        streams = {
            f"stream{way}": [
                (1_000_000 + n, f"<http://ex/k{key}> <http://ex/p{way}> <http://ex/o{way}x{n}>".encode())
                for n, key in enumerate(chance.integers(0, 20 * most, count).tolist())
            ]
            for way in range(ways)
        }
        data = Source("made", [b"<http://ex/a> <http://ex/b> <http://ex/c>"], streams)
        tape = Tape(data, tuple(streams))
        batches = tape.as_recorded(4_000)
        each = (_over(f"stream{way}", f"TRIPLES {most}", f"?k <http://ex/p{way}> ?o{way}") for way in range(ways))
        parts = " ".join(each)
        replay = Replay(folder / str(ways), data, tape, batches, interleaved=True)
        stepped = replay.run([f"REGISTER QUERY q AS SELECT * WHERE {{ {parts} }}"], retained=())
        state = replay.state_bytes()
        replay.close()
        figures[str(ways)] = {**_observed(stepped, batches), "state_mb": round(state / 1e6, 2)}
    return figures


# ---- watchers ---------------------------------------------------------------------------------------------------


def watchers(data: Source, quick: bool, folder: Path) -> Figures:
    """Q1, asked about one user; about 1,000 of whom one posts; and about 1,000 who all post."""
    figures: Figures = {}
    kinds: dict[str, tuple[int, Callable[[int], str]]] = {
        "1": (1, lambda n: "sibu:u984"),
        "1000_of_whom_1_posts": (1_000, lambda n: "sibu:u984" if not n else f"sibu:silent{n}"),
        "1000_who_post": (1_000, lambda n: f"sibu:u{n}"),
    }
    for kind, (count, user) in kinds.items():
        tape = Tape(data, (_POSTS,))
        batches = tape.dense(_A_BATCH // (10 if quick else 1), 10 if quick else 30, 1_000)
        replay = Replay(folder / kind, data, tape, batches, interleaved=True)
        some = range(1, count + 1) if not quick else range(1, min(count, 50) + 1)
        texts = [text_of("Q1").replace("QUERY Q1", f"QUERY q{n}").replace("sibu:u984", user(n - 1)) for n in some]
        stepped = replay.run(texts, retained=())
        replay.close()
        figures[kind] = {**_observed(stepped, batches), "emissions": sum(len(each.rows) for each in stepped)}
    one, same = (figures[kind]["batch_cpu_ms_p50"] for kind in ("1", "1000_of_whom_1_posts"))
    return {**figures, "ratio_1000_to_1": round(same / one, 2)}
