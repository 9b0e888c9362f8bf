"""Changes of the catalog: creating and dropping a stream, dropping a query."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stream_ext.catalog import CatalogStep, StreamDefinition, names_of
from stream_ext.errors import NameInUse
from stream_ext.injector import Change, Intent, View
from stream_ext.options import StreamOptions, parse_options


def create_stream(key: str, options: Mapping[str, object], base: str) -> Change:
    """Its result: the definition, and whether it is new."""
    own_iri, parsed = parse_options(options)
    names = names_of(key, base + "streams/", own_iri)

    def change(view: View) -> Intent:
        existing = view.catalog.find_stream(key)
        if existing is not None:
            _check_same(existing, parsed, own_iri)
            return Intent(result=lambda _: (existing, False))
        for taken in (view.catalog.find_stream(names.name), view.catalog.find_stream(names.iri)):
            if taken is not None:
                raise NameInUse(f"{key!r} would answer to a name of stream {taken.name!r} (<{taken.iri}>); use another")
        number = view.store.kv.allocate("stream", 1)
        definition = StreamDefinition(number, names.name, names.iri, parsed)
        return Intent(result=lambda _: (definition, True), steps=[CatalogStep("stream", number, definition)])

    return change


def _check_same(existing: StreamDefinition, options: StreamOptions, own_iri: str | None) -> None:
    if own_iri is not None and own_iri != existing.iri:
        raise NameInUse(
            f"stream {existing.name!r} is there with the IRI <{existing.iri}>; drop it first, or use another name"
        )
    if options != existing.options:
        asked, there = options.as_json(), existing.options.as_json()
        differing = [
            f'"{name}": {_json(asked[name])} asked, {_json(there[name])} there'
            for name in asked
            if asked[name] != there[name]
        ]
        raise NameInUse(
            f"stream {existing.name!r} is there with other options ({'; '.join(differing)}): "
            "drop it first, or use another name"
        )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def drop_stream(key: str) -> Change:
    def change(view: View) -> Intent:
        stream = view.catalog.stream(key)
        readers = [query.name for query in view.catalog.readers_of(stream.number)]
        if readers:
            raise NameInUse(
                f"stream {stream.name!r} is read by {', '.join(map(repr, readers))}: drop what reads it first"
            )
        return Intent(result=lambda _: None, steps=[CatalogStep("stream", stream.number, None)])

    return change


def drop_query(key: str) -> Change:
    def change(view: View) -> Intent:
        query = view.catalog.query(key)
        return Intent(result=lambda _: None, steps=[CatalogStep("query", query.number, None)])

    return change
