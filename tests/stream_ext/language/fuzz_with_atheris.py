"""`python tests/stream_ext/language/fuzz_with_atheris.py -max_total_time=60`: texts that coverage leads to, for the
parser.

Whatever comes in, the parser answers with a unit or with an error that has a place; anything else ends the run."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[3]))
with atheris.instrument_imports(include=["stream_ext.language.syntax", "stream_ext.plan"]):
    from stream_ext.errors import TextError
    from stream_ext.language.syntax import parse

SEEDS = Path(__file__).with_name("fuzz_seeds.txt").read_text().split("\n----\n")


def read(data: bytes) -> None:
    """A seed, cut in two, with what the fuzzer makes up between the halves."""
    made = atheris.FuzzedDataProvider(data)
    seed = SEEDS[made.ConsumeIntInRange(0, len(SEEDS) - 1)]
    start, stop = sorted(made.ConsumeIntInRange(0, len(seed)) for _ in range(2))
    try:
        parse(seed[:start] + made.ConsumeUnicode(made.remaining_bytes()) + seed[stop:], "http://base/")
    except TextError:
        return  # refused, and it says where


if __name__ == "__main__":
    atheris.Setup([*sys.argv, "-timeout=5", "-max_len=400"], read)
    atheris.Fuzz()
