"""Replays a file or a pipe: cuts it into elements and sends them at a given rate.

    ndjson   a line is an element
    tnt      TIME TAB triple: consecutive lines of one time are an element
    nt       consecutive lines of one subject are an element
    nq       consecutive lines of one graph are an element
    nt, nq   with VERSION "1.2-messages" before the statements: what MESSAGE ends is an element

Elements are sent as ndjson, so each may have a time of its own. At most one block of the input is in memory, and
what a pipe has given so far is sent before more is awaited."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol, cast

from stream_ext.errors import BadData
from stream_ext.rdf.messages import LineDirectives
from stream_ext.rdf.ntriples import document_rows, statement_rows

CUT_FORMATS = ("nt", "nq", "tnt", "ndjson")

_READ_BYTES = 1 << 20
_PUSH_BYTES = 4 << 20
_PUSH_ELEMENTS = 20_000
#: Elements whose times to be sent are in the same tick share a push.
_TICK_MS = 50
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Element:
    """A line of ndjson, and the time in it (None: it has none)."""

    line: bytes
    time: int | str | None


def unpacked(raw: BinaryIO) -> BinaryIO:
    """The input without gzip or zstd, which its first bytes show."""
    buffered = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
    head = buffered.peek(4)[:4] if isinstance(buffered, io.BufferedReader) else b""
    if head.startswith(_GZIP):
        import gzip

        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
    if head == _ZSTD:
        import zstandard

        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(buffered, read_across_frames=True))
    return buffered


def blocks_of_lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """Lines as soon as they can be read; the last line of the input may lack its line break."""
    read = getattr(source, "read1", source.read)
    rest = b""
    while data := read(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


# ---- cutting -------------------------------------------------------------------------------------------------


class Cutter:
    """Lines in, elements out. `time_from`: "data" (the times of the format), "arrival" (no times), or the IRI of the
    predicate whose object is the time of the element."""

    def __init__(self, format: str, time_from: str = "data") -> None:
        self._format, self._time_from = format, time_from
        self._number = 0
        self._key: bytes | None = None
        self._run: list[bytes] = []
        self._directives = LineDirectives(announced=False) if format in ("nt", "nq") else None

    def feed(self, lines: Iterable[bytes]) -> Iterator[Element]:
        for line in lines:
            self._number += 1
            if not (stripped := line.strip()) or (stripped.startswith(b"#") and self._format != "ndjson"):
                continue
            if self._format == "ndjson":
                yield self._of_line(stripped)
                continue
            if self._directives is not None and (ended := self._directives.rows(stripped, self._number)) is not None:
                if ended:
                    yield self._end_run()
                elif self._key is not None:
                    raise BadData("VERSION must come before all statements here", self._number, 1)
                continue
            key, triple = self._split(stripped)
            if key != self._key and self._run:
                yield self._end_run()
            self._key = key
            self._run.append(triple)

    def end(self) -> Iterator[Element]:
        if self._run:
            yield self._end_run()

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        """The key of an element that this line belongs to, and the triple."""
        if self._format == "tnt":
            time, tab, triple = line.partition(b"\t")
            if not tab:
                raise BadData("a line of tnt must be TIME TAB triple", self._number, 1)
            return time, triple
        try:
            ((s, p, o, g),) = document_rows(line, quads=self._format == "nq")
        except (BadData, ValueError) as error:
            raise BadData(f"this is not a statement: {error}", self._number, 1) from None
        if self._is_log:
            return b"", b"%s %s %s %s ." % (s, p, o, g) if g else b"%s %s %s ." % (s, p, o)
        return (g if self._format == "nq" else s), b"%s %s %s ." % (s, p, o)

    @property
    def _is_log(self) -> bool:
        return self._directives is not None and self._directives.announced

    def _end_run(self) -> Element:
        """The triples that were read with the same key, as one element."""
        triples, self._run = self._run, []
        element: dict[str, object] = {}
        if self._format == "tnt" and self._time_from == "data":
            element["timestamp"] = _time_written(self._key or b"")
        if self._format == "nq" and self._key:
            element["graph"] = self._key.decode().strip("<>")
        element["data"] = b"\n".join(triples).decode()
        return self._timed(element)

    def _of_line(self, line: bytes) -> Element:
        try:
            element = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadData(f"this is not JSON: {error.msg}", self._number, error.colno) from None
        except ValueError as error:
            raise BadData(f"this is not JSON: {error}", self._number, 1) from None
        if not isinstance(element, dict):
            raise BadData("an element must be a JSON object", self._number, 1)
        if self._time_from == "data":
            return Element(line, element.get("timestamp"))
        element.pop("timestamp", None)
        return self._timed(element)

    def _timed(self, element: dict[str, object]) -> Element:
        if self._time_from not in ("data", "arrival"):
            element = {"timestamp": self._time_by_predicate(element.get("data")), **element}
        time = element.get("timestamp")
        shown = time if isinstance(time, int | str) else None
        return Element(json.dumps(element, ensure_ascii=False).encode(), shown)

    def _time_by_predicate(self, data: object) -> str:
        if not isinstance(data, str):
            raise BadData("the time by predicate can be read from N-Triples only, and this is JSON-LD", self._number, 1)
        predicate = f"<{self._time_from}>".encode()
        times = {o for _, p, o, _ in statement_rows(data.encode(), quads=True) if p == predicate}
        if len(times) != 1:
            many = (
                f"{len(times)} times by {predicate.decode()}" if times else f"no time: it has no {predicate.decode()}"
            )
            raise BadData(f"the element that ends here has {many}", self._number, 1)
        return re.sub(r'^"(.*)".*$', r"\1", times.pop().decode())


def _time_written(text: bytes) -> int | str:
    return int(text) if text.lstrip(b"-").isdigit() else text.decode()


# ---- rate ------------------------------------------------------------------------------------------------------


class Pace(Protocol):
    def __call__(self, index: int, element: Element) -> float:
        """When the element is to be sent, in seconds after the first one."""
        ...


def at_once(index: int, element: Element) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class PerSecond:
    rate: float

    def __call__(self, index: int, element: Element) -> float:
        return index / self.rate


class AsItWas:
    """Sends by the times of the elements, `factor` times as fast."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._first: int | None = None

    def __call__(self, index: int, element: Element) -> float:
        from stream_ext.times import parse_time

        if element.time is None:
            raise BadData(f"element {index + 1} has no time, but --rate Nx needs the time of each element")
        time = parse_time(str(element.time))
        self._first = time if self._first is None else self._first
        return (time - self._first) / 1000 / self._factor


class Pacer:
    """Elements in, bodies of pushes out, none before its time."""

    def __init__(self, pace: Pace, now: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._pace, self._now, self._sleep = pace, now, sleep
        self._started: float | None = None
        self._due_s = 0.0
        self._count = 0

    def bodies(self, elements: Iterable[Element]) -> Iterator[bytes]:
        """The bodies of these elements. All of them are sent at the end of `elements`, as more may come much later."""
        block: list[bytes] = []
        size = 0
        for element in elements:
            wait_s = self._wait_s(element)
            if block and (wait_s > 0 or size >= _PUSH_BYTES or len(block) >= _PUSH_ELEMENTS):
                yield b"\n".join(block)
                block, size = [], 0
                wait_s = self._left_s()
            if wait_s > 0:
                self._sleep(wait_s)
            block.append(element.line)
            size += len(element.line)
        if block:
            yield b"\n".join(block)

    def _wait_s(self, element: Element) -> float:
        if self._started is None:
            self._started = self._now()
        due_ms = round(self._pace(self._count, element) * 1000)
        self._due_s = self._started + due_ms // _TICK_MS * _TICK_MS / 1000
        self._count += 1
        return self._left_s()

    def _left_s(self) -> float:
        return self._due_s - self._now()
