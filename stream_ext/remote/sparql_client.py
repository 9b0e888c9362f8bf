"""Client of other SPARQL endpoints, those that the settings allow, by the SPARQL 1.1 Protocol.

A query is sent as an HTML form, which every endpoint accepts; the answer is read as SPARQL results in JSON, within a
size and a time."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from hbase_store.layout.terms import iri, literal
from stream_ext.evaluation_budget import Control
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.fetching import CannotFetch, NoAnswer, late, pieces
from stream_ext.remote.http_limits import PackedOtherwise, client, streamed

if TYPE_CHECKING:
    import httpx

RESULTS = "application/sparql-results+json"
_REDIRECTS_MAX = 5

#: A solution: the terms of the variables that are bound. A blank node has the label that the endpoint gave it.
Solution = dict[str, bytes]


#: What asks a source: its text, its control, the most bytes; the solutions, and about how many bytes they take.
Attached = Callable[[str], Callable[[str, Control, int], tuple[list[Solution], int]] | None]


class _Term(msgspec.Struct):
    type: str
    value: str
    language: str | None = msgspec.field(name="xml:lang", default=None)
    datatype: str | None = None

    def text(self) -> bytes:
        match self.type:
            case "uri":
                return iri(self.value)
            case "literal" | "typed-literal":
                return literal(self.value, self.language, self.datatype)
            case "bnode":
                return b"_:" + self.value.encode()
        raise ValueError(f"a term of type {self.type!r}")


class _Results(msgspec.Struct):
    bindings: list[dict[str, _Term]]


class _Document(msgspec.Struct):
    results: _Results


@cache
def _trusted() -> ssl.SSLContext:
    """The certificate authorities that are trusted. They are read once: that takes longer than most requests."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def solutions(data: bytes, url: str) -> list[Solution]:
    """SPARQL results in JSON, as `url` answered them. Raises CannotFetch."""
    try:
        bindings = msgspec.json.decode(data, type=_Document).results.bindings
        return [{name: term.text() for name, term in each.items()} for each in bindings]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CannotFetch(f"<{url}> did not answer with SPARQL results in JSON: {error}") from None


#: Python's objects for an answer take so many times the bytes of the answer.
_COST = 4


class Remotes:
    """Requests over connections that stay open until the end of the block: `with Remotes(...) as remotes`."""

    def __init__(
        self,
        allowed_urls: AllowedUrls,
        control: Control,
        within_s: float | None = None,
        attached: Attached = lambda _: None,
    ) -> None:
        """`within_s`: the time for all requests together. None: each has the timeout of the settings. `attached` asks
        a source that was attached under an address, and has its own connections; None: none was."""
        self._attached = attached
        self._allowed_urls, self._control, self._within_s = allowed_urls, control, within_s
        self._ends = None if within_s is None else time.monotonic() + within_s
        self._client: httpx.Client | None = None
        self.answered = 0  # so many requests

    def __enter__(self) -> Remotes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._client is not None:
            self._client.close()

    def ask(self, service: str, text: str) -> list[Solution]:
        """The solutions of a SELECT. Raises OutOfBounds or CannotFetch."""
        if (ask := self._attached(service)) is not None:
            found, size = ask(text, self._control, self._allowed_urls.bytes_max)
            self.answered += 1
            self._control.spend(size)
            return found
        url = self._allowed_urls.check_service(service)
        data = self._posted(url, text)
        self.answered += 1
        self._control.spend(_COST * len(data))
        return solutions(data, url)

    def _posted(self, url: str, text: str) -> bytes:
        import httpx  # takes a tenth of a second to import

        if self._client is None:
            self._client = client(
                _trusted(),
                timeout=self._allowed_urls.timeout_s,
                headers={"accept": f"{RESULTS}, application/json;q=0.5"},
            )
        try:
            return self._followed(self._client, url, text)
        except PackedOtherwise as error:
            raise CannotFetch(f"<{url}> {error}") from None
        except httpx.TimeoutException:
            raise NoAnswer(self._late(url)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NoAnswer(f"<{url}> cannot be reached: {error or type(error).__name__}") from None

    def _followed(self, asks: httpx.Client, url: str, text: str) -> bytes:
        """Each step of a redirection must be allowed, and is requested in the same way."""
        now = time.monotonic()
        ends = now + self._allowed_urls.timeout_s if self._ends is None else self._ends
        if ends <= now:
            raise NoAnswer(self._late(url))
        for _ in range(_REDIRECTS_MAX + 1):
            self._control.check()
            left_s = max(0.0, ends - time.monotonic())
            with streamed(asks, "POST", url, left_s, data={"query": text}, timeout=ends - now) as response:
                if not response.is_redirect:
                    return self._received(response, url, ends)
                url = self._allowed_urls.check_service(urljoin(url, response.headers["location"]))
        raise CannotFetch(f"<{url}>: more than {_REDIRECTS_MAX} redirects")

    def _received(self, response: httpx.Response, url: str, ends: float) -> bytes:
        data = []
        try:
            for piece in pieces(response, url, self._allowed_urls, ends):
                self._control.check()
                data.append(piece)
        except NoAnswer:
            raise NoAnswer(self._late(url)) from None
        whole = b"".join(data)
        if response.status_code != 200:
            text = " ".join(whole[:300].decode(errors="replace").split())
            raise CannotFetch(f"<{url}> answered {response.status_code} {response.reason_phrase}: {text}".rstrip(": "))
        return whole

    def _late(self, url: str) -> str:
        if self._within_s is None:
            return late(url, self._allowed_urls)
        return f"<{url}> did not answer all requests of an evaluation within {self._within_s:g} s (--service-timeout)"
