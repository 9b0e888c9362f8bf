"""Placing: an error of an operation says which operation of its request it is, and where that stands in the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hbase_store.errors import BadRow
from stream_ext.errors import NotAllowed, ServiceFailed, UpdateFailed
from stream_ext.language.algebra.statements import Operation
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.writer.updates.other_store import QuadInOtherStore
from stream_ext.writer.updates.working import CannotUpdate, Forbidden


@contextmanager
def placed_operation(number: int, count: int, operation: Operation, text: str) -> Iterator[None]:
    """`number` of `count` operations of the request `text`."""
    which = f"operation {number} of {count}: " if count > 1 else ""
    try:
        yield
    except Forbidden as error:
        raise NotAllowed(which + str(error), text, *operation.position) from None
    except Unanswered as error:
        kind = NotAllowed if error.forbidden else ServiceFailed
        raise kind(which + error.why, text, *(error.position or operation.position)) from None
    except (CannotUpdate, QuadInOtherStore, BadRow) as error:
        why = f"{which}{error}; nothing of this request was applied"
        raise UpdateFailed(why, text, *operation.position) from None
