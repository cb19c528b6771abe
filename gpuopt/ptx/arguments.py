"""Check a kernel's arguments, extents and limits; convert them to the form that `_core` has."""

from __future__ import annotations

import math
import re
import struct
from operator import index
from typing import Any

import numpy as np

from gpuopt.ptx.entries import Parameter

_INTEGER = re.compile(r"\.[usb](8|16|32|64)")
ADDRESS = (".u64", ".b64", ".s64")
_FLOATS = {".f16": "<e", ".f32": "<f", ".f64": "<d"}


def describe(value: object) -> str:
    """Describe an argument, for an error message."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{type(value).__name__} {value!r:.60}"


def _integer(value: Any, parameter: Parameter) -> bytes | None:
    """Return an integer's bytes, None for another type; ValueError if it does not fit."""
    if not isinstance(value, int | np.integer | np.bool_):
        return None
    number, bits = int(value), 8 * parameter.size
    least = -(1 << bits - 1)  # also of .u32: compilers write it for a signed int
    most = (1 << bits - 1) - 1 if parameter.type[1] == "s" else (1 << bits) - 1
    if not least <= number <= most:
        raise ValueError(f"{number} does not fit into {parameter.type}, {least} to {most}")
    return (number & (1 << bits) - 1).to_bytes(parameter.size, "little")


def _is_structure(parameter: Parameter) -> bool:
    return not (parameter.type in _FLOATS or _INTEGER.fullmatch(parameter.type)) or (
        parameter.type == ".b8" and parameter.size > 1
    )


def scalar(value: Any, parameter: Parameter) -> bytes | None:
    """Return the bytes of a scalar argument, None for the wrong type."""
    if _is_structure(parameter) or (parameter.type == ".b8" and isinstance(value, bytes)):
        if not isinstance(value, bytes | bytearray | np.generic):
            return None
        data = bytes(value) if isinstance(value, bytes | bytearray) else value.tobytes()
        if len(data) != parameter.size:
            raise ValueError(f"has {len(data)} bytes, the parameter has {parameter.size}")
        return data
    if parameter.type in _FLOATS:
        if not isinstance(value, int | float | np.integer | np.floating):
            return None
        try:
            return struct.pack(_FLOATS[parameter.type], float(value))
        except OverflowError:
            raise ValueError(f"{value!r:.60} is too large for {parameter.type}") from None
    if isinstance(value, np.floating) and parameter.type[1] == "b":
        return value.tobytes() if value.dtype.itemsize == parameter.size else None
    return _integer(value, parameter)


def accepted(parameter: Parameter) -> str:
    """Describe the arguments that a parameter accepts, for an error message."""
    if _is_structure(parameter):
        return f"bytes or a NumPy scalar of {parameter.size} bytes"
    if parameter.type in _FLOATS:
        return "a number"
    if parameter.size == 8:
        return "a NumPy array, a Buffer, a Texture, a Surface, an array on the GPU, or an integer"
    exact = f", or a NumPy float of {parameter.size} bytes" if parameter.type[1] == "b" else ""
    return f"an integer{exact}" if parameter.size > 1 else "an integer or a bool"


def dimensions(value: Any, name: str, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a grid or a block as three numbers."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"{name}: has {len(given)} dimensions; give 1 to 3")
    try:
        numbers = tuple(index(each) for each in given)
    except TypeError:
        raise TypeError(f"{name}: must be an int or a tuple of ints, not {value!r:.60}") from None
    for axis, number in enumerate(numbers):
        if not 1 <= number <= most[axis]:
            raise ValueError(
                f"{name}: {number} in dimension {'xyz'[axis]} is not from 1 to {most[axis]:,}"
            )
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


IDLE_SECONDS = 45.0  # a launch none of whose warps ends for this long counts as endless


# steps, seconds, seconds without a warp's end (0: no limit); whether all checks are on; the order
# of warps: a seed (0: none), packed delays
Limits = tuple[int, float, float, bool, int, bytes | None]


def limits_of(steps: Any, time_limit: Any, check: Any, device: str, schedule: Any = None) -> Limits:
    """Return a launch's limits and its order in the form of `_core`."""
    if not isinstance(check, bool):
        raise TypeError(f"check: must be True or False, not {check!r:.60}")
    return *_bounds(steps, time_limit, device), check, *order_of(schedule, device)


def order_of(schedule: Any, device: str) -> tuple[int, bytes | None]:
    """Return the seed and the packed delays of `schedule`."""
    if schedule is None:
        return 0, None
    if not device.startswith("sim"):
        raise ValueError(f"schedule: only a simulated GPU orders its warps, and this is {device}")
    delays = getattr(schedule, "delays", schedule)
    if isinstance(delays, list | tuple):
        try:
            rows = sorted((index(b), index(w), index(a)) for b, w, a, *_ in delays)
            return 0, np.array(rows, np.uint64).reshape(-1, 3).tobytes()
        except (TypeError, ValueError, OverflowError):
            raise TypeError(
                f"schedule: delays are (block, warp, access), each 0 or above, not {delays!r:.60}"
            ) from None
    try:
        seed = index(schedule)
    except TypeError:
        raise TypeError(
            f"schedule: must be an int, an Order or a list of delays, not {schedule!r:.60}"
        ) from None
    if not 1 <= seed < 1 << 63:
        raise ValueError(f"schedule: {seed} is no seed; use 1 or more, or [] for no delay")
    return seed, None


def _bounds(steps: Any, time_limit: Any, device: str) -> tuple[int, float, float]:
    if steps is None and time_limit is None:
        return 0, 0.0, IDLE_SECONDS
    if not device.startswith("sim"):
        name = "steps" if time_limit is None else "time_limit"
        raise ValueError(f"{name}: only a simulated GPU can end a kernel, and this is {device}")
    try:
        number = 0 if steps is None else index(steps)
    except TypeError:
        raise TypeError(f"steps: must be an int, not {steps!r:.60}") from None
    if steps is not None and not 1 <= number < 1 << 64:
        raise ValueError(f"steps: {number} is not a number of warp instructions; use 1 or more")
    if time_limit is None:
        return number, 0.0, IDLE_SECONDS
    if not isinstance(time_limit, int | float | np.integer | np.floating):
        raise TypeError(f"time_limit: must be a number of seconds, not {time_limit!r:.60}")
    if not time_limit > 0:
        raise ValueError(f"time_limit: {time_limit} is not above 0; use seconds, or math.inf")
    return number, 0.0 if math.isinf(time_limit) else float(time_limit), 0.0


_FLAGS = {"cooperative": 1, "allow_equal_stores": 2, "prefer_l1": 4}  # device.h's


def flags_of(device: str, **chosen: Any) -> int:
    """Return a launch's flags in the form of `_core`."""
    if chosen["prefer_l1"] and not device.startswith("sim"):
        raise ValueError(
            f"prefer_l1: is a choice of Fermi and Kepler, and {device} is a later GPU; use "
            "device='sim:m2090' or 'sim:k40'"
        )
    return sum(bit for name, bit in _FLAGS.items() if chosen.get(name))
