"""What `rillet load` reads may be of any length; each line is bounded, and what a packed file unpacks to at once."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from endpoint.files.load import Wanted, load_all
from endpoint.files.reading import Source
from hbase_store.errors import Unwritable
from hbase_store.writing.loading import LINE_BYTES_MAX, Loading
from stream_ext.errors import BadData, TooLarge
from tests.stream_ext.rdf.bombs import OF_MEMORY

_ZEROS = 512 << 20


def _load(tmp_path: Path, path: Path, media_type: str) -> list[object]:
    wanted = Wanted(None, "http://base/")
    return list(load_all(f"lmdb:{tmp_path}/store", [Source(str(path), media_type)], wanted, io.StringIO()))


def test_a_packed_file_is_unpacked_a_little_at_a_time(tmp_path: Path) -> None:
    packed = tmp_path / "zeros.nt.zst"
    with packed.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file, size=_ZEROS) as writer:
        for _ in range(_ZEROS >> 20):
            writer.write(bytes(1 << 20))
    assert packed.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(Unwritable, match=r"a line \(number 1\) has more than 16770048 bytes"):
            _load(tmp_path, packed, "application/n-triples")
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_a_line_is_as_long_as_its_terms_may_be() -> None:
    loading = Loading(lambda line, number: ())
    for _ in range(LINE_BYTES_MAX >> 20):
        loading.read(b"#" * (1 << 20))
    with pytest.raises(Unwritable, match="is this a file of N-Triples or N-Quads"):
        loading.read(b"#" * (1 << 20))


def test_a_file_that_expands_is_named(tmp_path: Path) -> None:
    media_type, data = OF_MEMORY["entities of entities"]
    (tmp_path / "laughs.rdf").write_bytes(data)
    with pytest.raises(TooLarge, match=r"laughs\.rdf: after \d+ bytes"):
        _load(tmp_path, tmp_path / "laughs.rdf", media_type)
    (tmp_path / "wrong.ttl").write_bytes(b"<a:a> <a:b> <a:c>")
    with pytest.raises(
        BadData, match=r"wrong\.ttl:1:18: the document ends in the middle of a statement: at least a '\.' is"
    ):
        _load(tmp_path, tmp_path / "wrong.ttl", "text/turtle")
