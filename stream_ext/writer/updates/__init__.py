"""SPARQL 1.1 Update: a request of one or more operations becomes one snapshot, or nothing of it is published.

    INSERT DATA, DELETE DATA        data.py
    DELETE and INSERT by a pattern  modify.py, templates.py; the pattern is solved by solving.py
    CLEAR, DROP, CREATE, COPY ...   graphs.py
    LOAD                            load.py
    all operations of a request     request.py, where each sees what those before it did
    requests to an attached store   to_source.py; what is left alone in the other store: other_store.py

A graph is there while it holds a triple: nothing is kept of an empty one."""

from stream_ext.writer.updates.request import Updated, UpdateOutcome, change_of, in_turn, updated
from stream_ext.writer.updates.to_source import SourceRequest, request_to_source

__all__ = ["SourceRequest", "UpdateOutcome", "Updated", "change_of", "in_turn", "request_to_source", "updated"]
