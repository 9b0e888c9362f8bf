"""One SPARQL endpoint over HTTP, by the SPARQL 1.1 Protocol: requests as HTML forms over pooled connections.

What it refuses becomes an error with its own words: Later, if the same request may be answered later; TooMuch, if it
fails at the size of the request; CannotFetch else. Redirections are followed to the same origin only: whoever answers
there is whom the user named."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit

from stream_ext.errors import BadArgument
from stream_ext.remote.allowed_urls import AllowedUrls, OutOfBounds, places
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.http_limits import PackedOtherwise, client, streamed
from stream_ext.remote.shown_urls import Secrets, shown_url

if TYPE_CHECKING:
    import httpx

_REDIRECTS_MAX = 5
_PIECE_BYTES = 1 << 16
#: Of what is said beside an answer: so much is read, for so long; and so much of an error is shown.
_WORDS_BYTES, _WORDS_S, _WORDS_CHARACTERS = 1 << 16, 2.0, 300
#: Of HTTP: the same request may be answered later.
_LATER = (429, 502, 503, 504)
_TOO_MUCH = (413, 500, 507)


class TooMuch(CannotFetch):
    """It refuses to answer so much at once, or fails at it."""


class Later(NoAnswer):
    """It may well answer the same request later, after so many seconds if it says when."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class SparqlHttp:
    """The endpoint at one address. Any number of threads may use it."""

    def __init__(
        self, url: str, authorization: str | None, silence_s: float, secret_from: str, name: str | None = None
    ) -> None:
        """`authorization`: `user:password`, `Digest user:password` or `Bearer TOKEN`. In messages, `secret_from` names
        the setting of the authorization, and `name` the source. A request fails when the endpoint sends no byte for
        `silence_s`."""
        import httpx  # takes a tenth of a second to import

        self.url, self._secret_from = url, secret_from
        self._origin = _origin(url, secret_from)
        self._secrets = Secrets(url, authorization)
        shown = shown_url(url)
        self.called = f"<{shown}>" if name is None else f"the source {name} <{shown}>"
        self._allowed = AllowedUrls(service=places(self._origin + "/"))
        self._silence_s = silence_s
        self._client = client(
            httpx.create_ssl_context(trust_env=False) if url.lower().startswith("https:") else False,
            timeout=silence_s,
            headers=_bearer(authorization),
            auth=_account(authorization),
        )

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def query(self, text: str, accept: str, silence_s: float | None = None) -> Iterator[httpx.Response]:
        """The answer to a query, whose body has not been read yet."""
        with self._posted({"query": text}, accept, silence_s) as response:
            yield response

    def update(self, text: str, silence_s: float | None = None) -> None:
        """Sends an update once; NoAnswer if it is not known whether it was done."""
        with self._posted({"update": text}, "*/*", silence_s) as response:
            begun, size = time.monotonic(), 0
            for piece in self.body(response):  # so that the connection can be used again
                size += len(piece)
                if size > _WORDS_BYTES or time.monotonic() - begun > _WORDS_S:
                    break  # it was done, whatever else is said

    @contextmanager
    def _posted(self, form: dict[str, str], accept: str, silence_s: float | None) -> Iterator[httpx.Response]:
        import httpx

        url, silence_s = self.url, self._silence_s if silence_s is None else silence_s
        posted = {"data": form, "headers": {"accept": accept}, "timeout": httpx.Timeout(silence_s)}
        try:
            for _ in range(_REDIRECTS_MAX + 1):
                with streamed(self._client, "POST", url, silence_s, **posted) as response:
                    if not response.is_redirect:
                        if response.status_code != 200 and not ("update" in form and response.is_success):
                            raise self._refusal(response)
                        yield response
                        return
                    url = self._same_origin(urljoin(url, response.headers.get("location", "")))
        except PackedOtherwise as error:
            raise CannotFetch(f"{self.called} {error}") from None
        except httpx.TransportError as error:
            raise Later(f"{self.called} does not answer: {error or type(error).__name__}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CannotFetch(f"{self.called} cannot be reached: {error or type(error).__name__}") from None
        raise CannotFetch(f"{self.called}: more than {_REDIRECTS_MAX} redirects")

    def _same_origin(self, url: str) -> str:
        try:
            return self._allowed.check_service(url)
        except OutOfBounds:
            words = "which has another origin: give that address if you trust it"
            shown = self.hidden(url[:300])
            raise CannotFetch(f"{self.called} redirects to {shown!r}, {words}") from None

    def _refusal(self, response: httpx.Response) -> CannotFetch:
        status, words = response.status_code, self._beginning(response)
        message = f"{self.called} answered {status} {response.reason_phrase}".rstrip() + (f": {words}" if words else "")
        if status in _LATER:
            return Later(message, _retry_after(response.headers.get("retry-after", "")))
        if status in _TOO_MUCH:
            return TooMuch(message)
        if status in (401, 403):
            message += f" (give the user or token with {self._secret_from})"
        return CannotFetch(message)

    def not_what(self, form: str, wanted: str, response: httpx.Response) -> str:
        """The message for an answer of another media type."""
        return (
            f"{self.called} answered {form or 'without a Content-Type'}, not {wanted}: is this the address "
            f"of a SPARQL endpoint? The answer begins: {self._beginning(response)}"
        )

    def hidden(self, text: str) -> str:
        """What it says, without secrets of ours that it repeats."""
        return self._secrets.hide(text)

    def _beginning(self, response: httpx.Response) -> str:
        return self.hidden(_beginning(response))

    def body(self, response: httpx.Response) -> Iterator[bytes]:
        """The body of an answer, unpacked, while it comes: nothing waits until more has come."""
        import httpx

        try:
            for piece in response.iter_bytes():
                for start in range(0, len(piece), _PIECE_BYTES):
                    yield piece[start : start + _PIECE_BYTES]
        except httpx.TransportError as error:
            raise Later(
                f"{self.called} broke the connection while it answered: {error or type(error).__name__}"
            ) from None
        except httpx.HTTPError as error:
            raise CannotFetch(f"{self.called} sent data that cannot be decompressed: {error}") from None


# ---- addresses and accounts


def _origin(url: str, secret_from: str) -> str:
    try:
        parts = urlsplit(url)
        allowed = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, allowed = SplitResult("", "", "", "", ""), False
    if "@" in parts.netloc:
        raise BadArgument(
            f"other users of this machine can see a user name in an address: leave it out, and give {secret_from}"
        )
    if not allowed:
        raise BadArgument(f"{url}: the address of a SPARQL endpoint begins with http:// or https://")
    return f"{parts.scheme.lower()}://{parts.netloc}"


def _bearer(authorization: str | None) -> dict[str, str]:
    scheme, _, token = (authorization or "").strip().partition(" ")
    return {"authorization": f"Bearer {token.strip()}"} if scheme.lower() == "bearer" else {}


def _account(authorization: str | None) -> Any:
    import httpx

    scheme, blank, rest = (authorization or "").strip().partition(" ")
    if not scheme or scheme.lower() == "bearer":
        return None
    is_named = bool(blank) and scheme.lower() in ("basic", "digest")
    user, colon, password = (rest.strip() if is_named else (authorization or "").strip()).partition(":")
    if not colon:
        raise BadArgument("write the access to the source as user:password, Digest user:password, or Bearer TOKEN")
    return httpx.DigestAuth(user, password) if is_named and scheme.lower() == "digest" else (user, password)


# ---- what answers say


def form_of(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _beginning(response: httpx.Response) -> str:
    """The first words of an answer that was not meant to be read by programs."""
    import httpx

    data, begun = b"", time.monotonic()
    try:
        for piece in response.iter_bytes():
            data += piece
            if len(data) >= _WORDS_CHARACTERS or time.monotonic() - begun > _WORDS_S:
                break
    except httpx.HTTPError:
        pass  # it says something else than was asked anyway
    return " ".join(data[:_WORDS_CHARACTERS].decode(errors="replace").split())


def _retry_after(text: str) -> float | None:
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
