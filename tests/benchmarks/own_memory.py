"""The memory of this process, in MB: VmRSS is now, VmHWM the most there has been (Linux)."""

from __future__ import annotations

import re
from pathlib import Path

_STATUS, _FORGET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory_mb(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    return int(found[1]) / 1024 if found else 0.0


def forget_peak() -> None:
    """VmHWM is from now on."""
    _FORGET_PEAK.write_text("5")
