"""Refusals: the errors of requests that are not written because the writer has stopped."""

from __future__ import annotations

from hbase_store.errors import AnotherWriter, Fenced, StoreUnavailable
from stream_ext.errors import NotWriter, OutcomeUnknown, RilletError

RETRY_AFTER_S = 1


def resumes_after(error: BaseException) -> bool:
    """Whether this process writes again by itself, once the store answers or the other writer has ended."""
    return isinstance(error, (Fenced, AnotherWriter, StoreUnavailable))


def refusal_of(error: BaseException, url: str) -> RilletError:
    """The error of requests of which nothing is done."""
    if isinstance(error, RilletError):
        return error
    if resumes_after(error):
        return NotWriter(
            f"this server cannot write to {url} now: {error}. Nothing of this request was applied; send "
            "it again later, to this server or to the writer",
            RETRY_AFTER_S,
        )
    return NotWriter(
        f"the writer of {url} has stopped ({_named(error)}); nothing of this request was applied: see the "
        "server's log, and restart the server",
        0,
    )


def outcome_unknown(error: BaseException, url: str, head: int) -> OutcomeUnknown:
    """The error of requests that may be done, or not; `head` is the last snapshot that was published before them."""
    return OutcomeUnknown(
        f"the writer of {url} stopped while it wrote this request ({_named(error)}): it "
        f"is not known whether the request was written. Check the snapshots after {head}; a push "
        "with source and seq can safely be sent again"
    )


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
