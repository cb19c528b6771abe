"""A thread per device: host arrays are copied, and numbers waited for, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def on_each(work: Callable[[int, str], Any], devices: Sequence[str]) -> list[Any]:
    """Return ``work(k, device)`` for every device; the first error, when all have ended."""
    if len(devices) == 1:
        return [work(0, devices[0])]
    with ThreadPoolExecutor(len(devices), "gpuopt-device") as pool:
        return [each.result() for each in [pool.submit(work, *one) for one in enumerate(devices)]]
