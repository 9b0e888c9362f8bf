"""A source behind a SPARQL endpoint: Fuseki, GraphDB, Virtuoso, Oxigraph, another Rillet.

    source = SparqlEndpointSource(SourceSettings("main", "http://127.0.0.1:3030/ds/sparql"))
    for solutions in source.select("SELECT * { ?s ?p ?o }", control): ...

Connections stay open and are shared. Solutions are handed on while they come. A question that got no answer is asked
again a few times, as long as nothing of an answer was handed on; then the source is left alone for a while. What is no
whole answer is an error with the words of the source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from stream_ext.errors import BadArgument
from stream_ext.evaluation_budget import Control
from stream_ext.remote.circuit_breaker import CircuitBreaker
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.probing import probed
from stream_ext.remote.result_streams import ACCEPTED, reader_of
from stream_ext.remote.source import SourceHealth, SourceSettings, SourceTraits
from stream_ext.remote.sparql_client import Solution
from stream_ext.remote.sparql_http import Later, SparqlHttp, form_of

if TYPE_CHECKING:
    import httpx

#: So much without a single solution is no answer.
_NOTHING_BYTES = 64 << 20
_TRIES, _WAIT_S, _WAIT_S_MAX = 3, 0.2, 5.0
#: A wait is cut into such parts, so that it ends when nobody wants the answer any more.
_SLICE_S = 0.1
_WORDS_CHARACTERS = 200
#: By these headers stores say that they have cut an answer: how, and for which values (None: for any).
_CUT = {"x-sparql-maxrows": None, "x-sql-state": "S1TAT"}
_PROBE_S = 20.0


class SparqlEndpointSource:
    """Any number of threads may ask it at a time."""

    local = False

    def __init__(
        self,
        settings: SourceSettings,
        silence_s: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Answers are waited for as long as `silence_s` without a byte."""
        self._settings, self._silence_s, self._sleep = settings, silence_s, sleep
        name, secret = settings.name, "--attach-auth FILE, or the variable RILLET_ATTACH_AUTH"
        self._http = SparqlHttp(settings.url, settings.authorization, silence_s, secret, name)
        self._writing = None
        if settings.update_url is not None:
            self._writing = SparqlHttp(settings.update_url, settings.authorization, silence_s, secret, name)
        self._traits: SourceTraits | None = None
        self._breaker = CircuitBreaker(clock)
        self._round_trips = 0

    def __repr__(self) -> str:
        return f"SparqlEndpointSource({self._settings!r})"

    @property
    def settings(self) -> SourceSettings:
        return self._settings

    @property
    def traits(self) -> SourceTraits:
        """What was probed; it is probed when it is first needed. NoAnswer while the source is away."""
        if self._traits is None:
            self._traits = probed(lambda text: self._all(text), self._settings.default)
        return self._traits

    @property
    def health(self) -> SourceHealth:
        return SourceHealth(self._traits is not None, self._breaker.why, self._round_trips)

    def close(self) -> None:
        self._http.close()
        if self._writing is not None:
            self._writing.close()

    def _all(self, text: str) -> list[Solution]:
        return [solution for some in self.select(text, Control(_PROBE_S)) for solution in some]

    # ---- reading

    def select(self, text: str, control: Control) -> Iterator[list[Solution]]:
        """The solutions of a SELECT, some at a time, while they come. Raises NoAnswer or CannotFetch."""
        self._breaker.check()
        for tried in count(1):
            begun = False
            try:
                for found in self._answer(text, control):
                    begun = True
                    yield found
                self._breaker.answered()
                return
            except Later as later:
                wait_s = _WAIT_S * 2**tried if later.wait_s is None else later.wait_s
                if begun or tried == _TRIES or control.left_s(_WAIT_S_MAX) < wait_s:
                    self._breaker.failed(str(later), later.wait_s)
                    raise NoAnswer(str(later)) from None
                self._wait(wait_s, control)

    def _wait(self, wait_s: float, control: Control) -> None:
        while wait_s > 0:
            control.check()
            self._sleep(min(wait_s, _SLICE_S))
            wait_s -= _SLICE_S

    def _answer(self, text: str, control: Control) -> Iterator[list[Solution]]:
        control.check()
        self._round_trips += 1
        with self._http.query(text, ACCEPTED, control.left_s(self._silence_s)) as response:
            reader = reader_of(form_of(response))
            if reader is None:
                raise CannotFetch(self._http.not_what(form_of(response), "SPARQL results", response))
            self._check_uncut(response)
            body = _AnswerBody(self._http, response, control)
            try:
                for found in reader(iter(body)):
                    if found:
                        body.quiet_bytes = 0
                        yield found
            except (ValueError, LookupError, RecursionError) as error:
                words = f"answered what are no SPARQL results: {error or type(error).__name__}"
                raise CannotFetch(f"{self._http.called} {words}; it begins: {body.beginning}") from None

    def _check_uncut(self, response: httpx.Response) -> None:
        for name, value in _CUT.items():
            if (given := response.headers.get(name)) is not None and value in (None, given):
                raise CannotFetch(
                    f"{self._http.called} cuts its answer ({name}: {given}): ask for less, or raise its limit there"
                )

    # ---- writing

    def update(self, text: str) -> None:
        """One request of DATA operations, never repeated by itself."""
        if self._writing is None:
            raise BadArgument(
                f"the source {self._settings.name} takes no updates: name the address for them with --attach-update"
            )
        self._breaker.check()
        self._round_trips += 1
        try:
            self._writing.update(text)
        except Later as later:
            self._breaker.failed(str(later), later.wait_s)
            raise NoAnswer(f"{later}; whether the update was done there is not known") from None


class _AnswerBody:
    """The body of one answer; endless nothing is an error."""

    def __init__(self, http: SparqlHttp, response: httpx.Response, control: Control) -> None:
        self._http, self._response, self._control = http, response, control
        self.quiet_bytes = 0
        self._begins = b""

    @property
    def beginning(self) -> str:
        """Its first words."""
        return self._http.hidden(" ".join(self._begins[:_WORDS_CHARACTERS].decode(errors="replace").split()))

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._http.body(self._response):
            self._control.check()
            self._begins = self._begins or piece[:_WORDS_CHARACTERS]
            self.quiet_bytes += len(piece)
            if self.quiet_bytes > _NOTHING_BYTES:
                raise CannotFetch(f"{self._http.called} sent {self.quiet_bytes:,} bytes without a solution")
            yield piece
