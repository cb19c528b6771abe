"""Probes, of which experiments consist: launches that are verified, and timed or counted.

On a GPU the launches take turns, sample by sample, so that a drift of the machine meets all of
them; outputs are poisoned before each check. Cold: every launch works on another copy of the data,
from more copies than the caches hold; warm: on the same. A simulated GPU has no times: there every
launch runs once and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuopt.catalog.devices import Device, device as describe_device, device_name
from gpuopt.measure.race import Contender, Effort, VerificationError, race
from gpuopt.observe.prediction import predict_launches
from gpuopt.observe.profile import Launch, profile
from gpuopt.ptx.buffers import Buffer, Prepared
from gpuopt.ptx.module import Module
from gpuopt.util.checks import whole

CACHES = 4  # cold: size of all copies over that of the last-level cache
COPIES_MOST = 64
SAMPLE_SECONDS = 2e-3  # least duration of a sample
POISON = 0xFF  # NaN in every floating-point type, -1 in integers


def choose(device: str | None, preset: str) -> Device:
    """Return the device of an experiment, by the rule of `gpuopt.ladder`.

    Parameters
    ----------
    device : str or None
        "cuda", "cuda:1", "sim:h200", ...; None: GPUOPT_DEVICE, else a GPU if there is one, else
        "sim".
    preset : str
        The simulated GPU that the deck used: the meaning of "sim".
    """
    name = device_name(device, "sim")
    described = describe_device(f"sim:{preset}" if name == "sim" else name)
    if described.kind == "cpu":
        raise ValueError(
            "device: 'cpu' runs no kernels, and experiments are kernels; use 'cuda', 'sim' or a "
            "preset as 'sim:g80'"
        )
    return described


@dataclass
class Probe:
    """One launch of an experiment.

    Attributes
    ----------
    name : str
    kernel : str
        A symbol of the embedded kernels.
    grid, block : int or tuple of int
    arguments : tuple
        Arrays are inputs, each copied to the device; `Output` is memory that the kernel writes;
        anything else is passed as it is.
    check : callable
        Returns the error of the output, or "".
    shared : int
        Bytes of dynamic shared memory per block.
    parameters : dict
        For the row.
    """

    name: str
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: tuple[Any, ...]
    check: Callable[[np.ndarray], str]
    shared: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    deck: str = ""


@dataclass(frozen=True)
class Output:
    """Memory that a launch writes: a number of elements of a dtype."""

    items: int
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return self.items * np.dtype(self.dtype).itemsize


@dataclass
class Outcome:
    """A probe with its seconds per launch on a GPU, or its counters on a simulated one."""

    probe: Probe
    seconds: float = 0.0
    spread: float = 0.0
    launch: Launch | None = None

    @property
    def predicted(self) -> float | None:
        """The seconds that the model predicts for a counted launch; None without an answer."""
        if self.launch is None:
            return None
        seconds = predict_launches([self.launch], cold=True, compiled_code=False).seconds
        return None if math.isnan(seconds) else seconds


class Lab:
    """The embedded kernels on a device, and the data of an experiment there.

    Inputs are kept by identity: probes that share an array share its copies on the device.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.timed = device.kind == "cuda"
        self.module = Module(None, device.name)
        self._inputs: dict[tuple[int, int], tuple[np.ndarray, Buffer]] = {}
        self._outputs: dict[tuple[int, int], Buffer] = {}

    def _input(self, array: np.ndarray, copy: int) -> Buffer:
        key = id(array), copy
        if key not in self._inputs:  # the array is kept, so that no other gets its id
            self._inputs[key] = array, self.module.copy(array)
        return self._inputs[key][1]

    def _output(self, nbytes: int, copy: int) -> Buffer:
        key = nbytes, copy
        if key not in self._outputs:
            self._outputs[key] = self.module.empty(nbytes)
        return self._outputs[key]

    def _arguments(self, probe: Probe, copy: int) -> tuple[list[Any], Buffer, Output]:
        values, written, output = [], None, None
        for argument in probe.arguments:
            if isinstance(argument, Output):
                output, written = argument, self._output(argument.nbytes, copy)
                values.append(written)
            elif isinstance(argument, np.ndarray):
                values.append(self._input(argument, copy))
            else:
                values.append(argument)
        if written is None or output is None:
            raise TypeError(f"probe {probe.name!r} has no Output to verify")
        return values, written, output

    def run(self, probe: Probe) -> Launch | None:
        """Poison the output, run the probe once, verify it; return what a simulated GPU counts."""
        values, written, output = self._arguments(probe, 0)
        poison = np.full(output.nbytes, POISON, np.uint8)
        self.module._core.copy_in(written.address, poison)
        kernel = self.module[probe.kernel]
        launches: list[Launch] = []
        if self.timed:
            kernel(probe.grid, probe.block, *values, shared=probe.shared)
        else:
            counted = profile(
                kernel, probe.grid, probe.block, *values, shared=probe.shared,
                device=self.device.name, caches=True,
            )  # fmt: skip
            launches = counted.launches
        error = probe.check(written.get(output.dtype))
        if error:
            raise VerificationError(f"{probe.name}: kernel {probe.kernel} gave {error}")
        return launches[-1] if launches else None

    def _bound(self, probe: Probe, cold: bool) -> list[Prepared]:
        """Return the launches of one round: one, or one for each copy of the data."""
        copies = 1
        if cold:
            size = sum(
                each.nbytes for each in probe.arguments if isinstance(each, np.ndarray | Output)
            )
            copies = min(COPIES_MOST, 2 + CACHES * self.device.cache_bytes // max(1, size))
        kernel = self.module[probe.kernel]
        return [
            kernel.bind(
                probe.grid, probe.block, *self._arguments(probe, copy)[0], shared=probe.shared
            )
            for copy in range(copies)
        ]

    def _contender(self, probe: Probe, cold: bool) -> Contender:
        """Return a probe for a race; a run is one launch."""
        bound = self._bound(probe, cold)

        def time(runs: int, _: bool) -> float:  # the launches are bound to one copy or to many
            return self.module.time(bound, -(-runs // len(bound))) / len(bound)

        return Contender(time, lambda: self.run(probe))

    def measure(self, probes: Sequence[Probe], *, cold: bool, rounds: int = 7) -> list[Outcome]:
        """Race the probes on a GPU; verify and count each once on a simulated one."""
        if not self.timed:
            return [Outcome(probe, launch=self.run(probe)) for probe in probes]
        contenders = [self._contender(probe, cold) for probe in probes]
        race(contenders, Effort(rounds, SAMPLE_SECONDS))
        return [
            Outcome(probe, each.warm.median, each.warm.spread)
            for probe, each in zip(probes, contenders, strict=True)
        ]


def how(timed: bool, cold: bool, rounds: int) -> str:
    """Return how it was measured, for an experiment's notes."""
    if not timed:
        return "the same compiled kernels, verified and counted; a simulated GPU has no clock"
    mode = "cold: other data each time, from memory" if cold else "warm: the same data each time"
    return f"medians of {rounds} samples in turns, verified before and after; {mode}"


def size(n: Any, default: int, name: str = "n") -> int:
    """Return a count of at least 1; None is the default."""
    if n is None:
        return default
    if isinstance(n, bool):
        raise TypeError(f"{name}: must be an integer, not {n!r}")
    return whole(n, name, 1)


def several(values: Any, name: str) -> list[Any]:
    """Return an argument that is a list; its items are looked at one by one."""
    if isinstance(values, str) or not np.iterable(values):
        raise TypeError(f"{name}: must be a list of ints, not {values!r:.60}")
    return list(values)
