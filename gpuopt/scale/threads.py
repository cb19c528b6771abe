"""A thread per device: host arrays are copied, and numbers waited for, side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from gpuopt.catalog.devices import device_name


def on_each(work: Callable[[int, str], Any], devices: Sequence[str]) -> list[Any]:
    """Return ``work(k, device)`` for every device; the first error, when all have ended."""
    if len(devices) == 1:
        return [work(0, devices[0])]
    with ThreadPoolExecutor(len(devices), "gpuopt-device") as pool:
        return [each.result() for each in [pool.submit(work, *one) for one in enumerate(devices)]]


@contextmanager
def overlapped(device: str | None) -> Iterator[Callable[..., None]]:
    """Yield ``run(function, *arguments)``: on a GPU, a call begins while the one before ends.

    One copies its elements to the GPU while the other copies its results back. The first error is
    raised by a later `run`, or at the end.
    """
    if device_name(device, "cpu").partition(":")[0] != "cuda":
        yield lambda function, *given: function(*given)
        return
    coming: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(2, "gpuopt-block") as pool:

        def run(function: Callable[..., Any], *given: Any) -> None:
            while len(coming) > 1:
                coming.popleft().result()
            coming.append(pool.submit(function, *given))

        yield run
        for each in coming:
            each.result()
