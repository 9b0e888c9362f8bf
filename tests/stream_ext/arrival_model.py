"""When a query is evaluated at arrivals, and over what: the sentences of the language, executed by brute force.

Nothing here is shared with the engine. The sentence that a function executes stands above it. Every window is asked
of every triple that has arrived; windows are bags, and a dialect whose windows are sets makes them sets later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Triple = tuple[str, str, str]
#: One triple as it arrived: the number of its element, and its place in that element's document.
Item = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """`kind`: RANGE (also NOW-d TO NOW-e, with `until_ms`), NOW, ALL, TRIPLES or ELEMENTS. A RANGE without a step
    slides on arrival."""

    stream: int
    kind: str = "RANGE"
    range_ms: int = 0
    step_ms: int = 0
    until_ms: int = 0
    t0: int = 0
    bounds: str = "(]"
    count: int = 0
    count_step: int = 0

    @property
    def counts(self) -> bool:
        return self.kind in ("TRIPLES", "ELEMENTS")


@dataclass(frozen=True)
class Element:
    stream: int
    time: int
    triples: tuple[Triple, ...]


@dataclass(frozen=True)
class Evaluation:
    """`before`: what the same windows hold without the arrivals since the evaluation before this one."""

    time: int
    contents: tuple[tuple[Item, ...], ...]
    before: tuple[tuple[Item, ...], ...]


@dataclass
class ArrivalModel:
    windows: Sequence[Window]
    content_only: bool = False
    elements: list[Element] = field(default_factory=list)  # in the order of their arrival
    fresh: set[int] = field(default_factory=set)  # numbers of those that came since the last evaluation
    last: int | None = None
    #: Of each window with a count STEP: what has come since the registration.
    counted: dict[int, int] = field(default_factory=dict)
    completed: bool = False  # a multiple of STEP was completed, and no evaluation was made since

    # ---- what a window holds

    # "its instance is [c-RANGE, c), or as BOUNDS says"; "T0 is the origin of the closes, and is not itself a close"
    # "CONTENT_CHANGE takes the instance with the earliest close > t (>= t if the end is ]), cut at t and including t"
    # "RANGE r SLIDE s is still evaluated at every arrival, over the grid instance cut at t"
    def is_in_stepped(self, window: Window, element: int, time: int) -> bool:
        close = time + (window.bounds[1] == ")")
        while close <= window.t0 or (close - window.t0) % window.step_ms:
            close += 1
        start, end = close - window.range_ms, min(close, time) - window.until_ms
        return (element >= start if window.bounds[0] == "[" else element > start) and element <= end

    # "(t-r, t]", as BOUNDS says; "[NOW] holds the elements of timestamp t"; ALL holds what has come up to t
    def is_in(self, window: Window, element: int, time: int) -> bool:
        if window.kind == "NOW":
            return element == time
        if window.kind != "RANGE":
            return element <= time
        if window.step_ms:
            return self.is_in_stepped(window, element, time)
        start, end = time - window.range_ms, time - window.until_ms
        begins = element >= start if window.bounds[0] == "[" else element > start
        return begins and (element <= end if window.bounds[1] == "]" else element < end)

    # "TRIPLES n counts triples in document order and may split an element; ELEMENTS n counts elements; order is
    # timestamp, then arrival"
    def instance(self, window: Window, time: int) -> tuple[Item, ...]:
        numbers = [n for n, e in enumerate(self.elements) if e.stream == window.stream]
        held = sorted((self.elements[n].time, n) for n in numbers if self.is_in(window, self.elements[n].time, time))
        if window.kind == "ELEMENTS":
            held = held[-window.count :]
        items = [(number, place) for _, number in held for place in range(len(self.elements[number].triples))]
        return tuple(items[-window.count :] if window.kind == "TRIPLES" else items)

    # "what this answer has more than the same windows at t would give with the arrivals since the previous evaluation
    # taken out of them (a count window is not refilled)"
    def evaluation(self, time: int) -> Evaluation | None:
        contents = tuple(self.instance(window, time) for window in self.windows)
        if self.content_only and not any(contents):
            return None
        before = tuple(tuple(item for item in held if item[0] not in self.fresh) for held in contents)
        self.fresh, self.completed = set(), False
        return Evaluation(time, contents, before)

    # ---- when

    # "a query registered late evaluates only arrivals after its registration, over windows that hold retained earlier
    # ones"
    def comes_before(self, elements: Sequence[Element]) -> None:
        self.elements += elements

    # "time windows once per timestamp of a push, in time order (timestamps of one push that come to the same t are one
    # evaluation, over all of them), NOW and count windows per element, in document order"
    def turns(self, stream: int, elements: Sequence[Element]) -> list[list[Element]]:
        mine = [window for window in self.windows if window.stream == stream]
        if any(window.kind == "NOW" or window.counts for window in mine):
            return [[element] for element in elements]
        by_time: dict[int, list[Element]] = {}
        for element in sorted(elements, key=lambda element: element.time):  # stable: else as in the document
            at = element.time if self.last is None else max(element.time, self.last)
            by_time.setdefault(at, []).append(element)
        return list(by_time.values())

    # "an arrival is evaluated at once, waiting for no other stream, at t = max(its timestamp, the query's last t)"
    def push(self, stream: int, elements: Sequence[Element]) -> tuple[list[bool], list[Evaluation]]:
        late = [self.is_late(element) for element in elements]
        found = []
        for turn in self.turns(stream, elements):
            self._arrive(turn)
            newest = max(element.time for element in turn)
            at = newest if self.last is None else max(newest, self.last)
            # "An arrival that can be in no window of the query (late, or before the first instance opens) causes no
            # evaluation."
            if any(self.can_be_in(self.elements[n], n, at) for n in self._numbers(turn)) and self.is_due(stream):
                self.last = at
                if (evaluation := self.evaluation(at)) is not None:
                    found.append(evaluation)
        return late, found

    def _numbers(self, turn: Sequence[Element]) -> range:
        return range(len(self.elements) - len(turn), len(self.elements))

    def _arrive(self, turn: Sequence[Element]) -> None:
        self.elements += turn
        self.fresh |= set(self._numbers(turn))
        # "evaluated after each element with which the count since registration reaches or passes a multiple of m";
        # "late ones ... included"
        for place, window in enumerate(self.windows):
            if window.count_step and window.stream == turn[0].stream:
                before = self.counted.get(place, 0)
                more = len(turn) if window.kind == "ELEMENTS" else sum(len(element.triples) for element in turn)
                self.counted[place] = before + more
                self.completed |= (before + more) // window.count_step > before // window.count_step

    # "else after each element"; "if the element that completes a multiple is late, the evaluation comes with the next
    # arrival"
    def is_due(self, stream: int) -> bool:
        mine = [window for window in self.windows if window.stream == stream]
        return self.completed or not all(window.count_step for window in mine)

    # "For per-arrival queries late is what can be in no window any more"; "elements of one push are never late for one
    # another"
    def is_late(self, element: Element) -> bool:
        mine = [window for window in self.windows if window.stream == element.stream]
        ever = any(w.kind != "RANGE" or self.is_ever_in(w, element.time, element.time) for w in mine)
        at = element.time if self.last is None else max(element.time, self.last)
        return ever and not self.can_be_in(element, len(self.elements), at)

    def is_ever_in(self, window: Window, element: int, start: int) -> bool:
        """Whether an instance of `start` or later holds it."""
        reach = window.range_ms + window.step_ms + 2
        return any(self.is_in(window, element, at) for at in range(start, element + reach))

    def can_be_in(self, element: Element, number: int, start: int) -> bool:
        """Whether any window can hold it at `start` or later. `number`: its place among all arrivals."""
        for window in self.windows:
            if window.stream != element.stream:
                continue
            if window.counts:
                known = [(n, e) for n, e in enumerate(self.elements) if e.stream == element.stream]
                later = [e for n, e in known if (e.time, n) > (element.time, number) and e.time <= start]
                size = len(later) if window.kind == "ELEMENTS" else sum(len(e.triples) for e in later)
                found = size < window.count
            elif window.kind == "NOW":
                found = element.time >= start
            else:
                found = window.kind == "ALL" or self.is_ever_in(window, element.time, start)
            if found:
                return True
        return False
