"""texture: reads through texture objects against plain loads: linear memory and 2-D arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import oracle
from gpuopt.ptx.textures import Texture
from gpuopt.util.names import suggests

BLOCK = 256
TILE = 16  # sides of a square block
ROUNDS = 7
OUTSIDE = -3.0  # where the first output of a plane reads: beyond the edge
STEP = 17 / 16  # between two outputs' coordinates, so that all fractions k/16 + OFFSET come
OFFSET = 6.2 / 256  # far from the middle between two weights of 8 bits
TEXELS = {"texels of 8 bits": "u1", "texels of 16 bits": "u2", "texels of half floats": "f2"}
FETCHES = 18.4e9  # per second on a G80: 32 address units x 575 MHz; deck D3: about 18 billion
FILTER_BOUND = 2.0**-12  # of texels in [0, 1); unrounded weights are off by up to 2^-9


def sample(
    plane: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    *,
    linear: bool,
    wrap: bool,
    bits: int = 8,
    whole: float = 1.0,
) -> np.ndarray:
    """Return the values that a texture object over a 2-D array fetches.

    Parameters
    ----------
    plane : numpy.ndarray
        Texels, of shape (height, width).
    x, y : numpy.ndarray
        Coordinates of columns and rows, in texels: texel i reaches from i to i + 1.
    linear : bool
        Interpolate between the four texels around (x - 0.5, y - 0.5); else take the texel that
        contains the point.
    wrap : bool
        Take coordinates outside modulo the array; else clamp them to its edge.
    bits : int
        Bits of a weight's fraction. The hardware keeps 8; with 52 the weights are exact.
    whole : float
        Sum of the four weights: less than 1 for one of a volume's two planes.

    Returns
    -------
    numpy.ndarray
        Array of shape (len(y), len(x)), float64.

    Notes
    -----
    Source: CUDA C++ Programming Guide, "Texture Fetching", linear filtering; deck D3. The weights'
    rounding, which keeps their sum, was measured on an H200 and an H100 (November 2026).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuopt.experiments.texture import sample
    >>> plane = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> sample(plane, np.array([-7.0, 1.0, 1.3]), np.array([0.5]), linear=True, wrap=False)
    array([[0.        , 0.5       , 0.80078125]])
    """

    def place(at: np.ndarray, size: int) -> np.ndarray:
        return at % size if wrap else at.clip(0, size - 1)

    def rounded(weight: np.ndarray) -> np.ndarray:
        return np.floor(weight * 2.0**bits + 0.5) / 2.0**bits

    def neighbours(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        low = np.floor(at - 0.5)
        weight = rounded(at - 0.5 - low)
        low = low.astype(np.int64)
        return place(low, size), place(low + 1, size), weight

    height, width = plane.shape
    x, y, plane = np.float64(x), np.float64(y), np.float64(plane)
    if not linear:
        columns = place(np.floor(x).astype(np.int64), width)
        return plane[place(np.floor(y).astype(np.int64), height)][:, columns]
    left, right, a = neighbours(x, width)
    above, below, b = neighbours(y, height)
    b = b[:, None]
    a = rounded(whole * a)
    both, neither = rounded(a * b), rounded((whole - a) * (1 - b))
    up, down = plane[above], plane[below]
    return (
        up[:, left] * neither
        + up[:, right] * (a - both)
        + down[:, left] * (whole - a - neither)
        + down[:, right] * both
    )


@suggests
def texture(n: int | None = None, *, device: str | None = None) -> Experiment:
    """Textures: linear memory and 2-D arrays, clamped and wrapped, filtered, against plain loads.

    Parameters
    ----------
    n : int, optional
        Side of the square plane of floats, a power of two from 32; n * n floats of linear memory.
        Default: 4096 on a GPU, 64 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the G80.

    Returns
    -------
    Experiment
        Rows "linear" (item i and item i + 1), "plane" (along rows and down columns), "square"
        (down columns by blocks of 16 x 16 threads: the texture cache has the rest of a sector for
        the next warp), "texels" (of 8 and 16 bits, read as floats from 0 to 1, and half floats),
        "wrap" and "filter", each by "load" (plain ones, for the filter with its arithmetic) and by
        "texture". On a GPU `seconds` and `bandwidth`, on a simulated one `transactions` of loads
        and stores, `texture_requests`, `texture_sectors` (of 16 bytes by two rows in a plane),
        `texture_hit_rate` and `instructions`. The share is relative to the first row of the kind.
        `error` of the filtered rows: the largest difference from the filter's model, see
        `sample`.

    Raises
    ------
    TypeError, ValueError
        An `n` that is no such power of two; a device that runs no kernels.
    VerificationError
        A fetched value differs from NumPy's model.

    Notes
    -----
    Source: deck D3. Texels are in [0, 1); coordinates begin three texels outside.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.texture(32, device="sim")
    >>> load, fetch = (found[f"plane down columns, {how}"].values for how in ("load", "texture"))
    >>> load["transactions"] > 2 * fetch["transactions"]
    True
    """
    described = _lab.choose(device, "g80")
    lab = Lab(described)
    n = _lab.size(n, 4096 if lab.timed else 64)
    if n & (n - 1) or n < 32:
        raise ValueError(f"n: {n} is not a power of two from 32")
    probes = [*_linear(lab, n), *_planes(lab, n)]
    outcomes = lab.measure(probes, cold=False, rounds=ROUNDS)
    firsts: dict[str, Outcome] = {}
    rows = [
        _row(each, firsts.setdefault(each.probe.parameters["kind"], each), lab.timed, n)
        for each in outcomes
    ]
    notes = [_lab.how(lab.timed, False, ROUNDS)]
    if described.name == "sim:g80":
        least = n * n / FETCHES * 1e6
        notes.append(
            f"a G80 fetches at most {FETCHES / 1e9:.1f} billion texels per second (deck D3): "
            f"{n * n:,} take {least:,.2f} us at least"
        )
    return Experiment(
        "texture",
        described,
        f"{n} x {n} float32 read by plain loads and through texture objects",
        _columns(lab.timed),
        rows,
        f"the {'time' if lab.timed else 'instructions'} of the first row of its kind",
        notes,
    )


def _columns(timed: bool) -> list[Column]:
    error = Column("error", "error", ".1e")
    if timed:
        return [
            Column("seconds", "us", ",.1f", 1e6),
            Column("spread", "spread", ".1%"),
            Column("bandwidth", "GB/s", ",.0f", 1e-9),
            error,
        ]
    return [
        Column("transactions", "transactions"),
        Column("texture_requests", "texture\nrequests"),
        Column("texture_sectors", "texture\nsectors"),
        Column("texture_hit_rate", "texture\nhits", ".0%"),
        Column("instructions", "instructions"),
        error,
    ]


class _Filtered:
    """Checks a filtered plane, and remembers how far it was off."""

    def __init__(self, want: np.ndarray, bound: float) -> None:
        self.want, self.bound, self.error = want, bound, 0.0

    def __call__(self, got: np.ndarray) -> str:
        wrong = oracle.wrong(got, self.want, self.bound)
        self.error = 0.0 if wrong else float(np.abs(got - self.want).max())
        return wrong


def _linear(lab: Lab, n: int) -> list[Probe]:
    """Return item i + shift of linear memory, by loads and by fetches."""
    items = np.random.default_rng(1).random(n * n, np.float32)
    line = lab.module.texture(items)
    probes = []
    for shift in (0, 1):
        right = np.append(items[shift:], np.zeros(shift, np.float32))  # nothing beyond the end
        for how, source in (("load", items), ("texture", line)):
            probes.append(
                Probe(
                    f"linear, item i{f' + {shift}' if shift else ''}, {how}",
                    f"micro_fetch_{how}",
                    -(-n * n // BLOCK),
                    BLOCK,
                    (source, Output(n * n), n * n, shift),
                    partial(oracle.wrong, want=right),
                    parameters={"kind": "linear", "how": how, "shift": shift},
                )
            )
    return probes


@dataclass
class _Plane:
    """The texels of a plane, and their textures."""

    lab: Lab
    texels: np.ndarray

    def texture(self, *, linear: bool = False, wrap: bool = False) -> Texture:
        return self.lab.module.texture(
            self.texels, linear_filter=linear, wrap=wrap, normalised=wrap
        )

    def probe(
        self,
        name: str,
        kind: str,
        kernel: str,
        source: np.ndarray | Texture,
        check: Callable[[np.ndarray], str],
        walk: tuple[float, float] = (0.5, 1.0),
        *,
        down: int = 0,
        square: bool = False,
    ) -> Probe:
        """Return a probe over all points: the coordinates are walk[0] + i * walk[1]."""
        n = len(self.texels)
        width, height = (TILE, TILE) if square else (min(BLOCK, n), 1)
        start, step = map(np.float32, walk)
        coordinates = () if kernel == "load" else (start, start, step, step)
        how = "texture" if kernel == "texture" else "load"
        return Probe(
            name,
            f"micro_plane_{kernel}",
            (n // width, n // height),
            (width, height),
            (source, Output(n * n), n, n, down, *coordinates),
            check,
            parameters={"kind": kind, "how": how},
        )


def _texel_types(plane: _Plane) -> list[Probe]:
    """Return fetches of texels of fewer bits, which arrive as floats: integers from 0 to 1."""
    probes = []
    for name, dtype in TEXELS.items():
        most = np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1
        texels = (plane.texels * most).astype(dtype)
        want = (texels.astype(float) / most).astype(np.float32)
        check = partial(oracle.wrong, want=want.ravel(), absolute=2.0**-23)
        source = plane.lab.module.texture(texels)
        probes.append(plane.probe(f"{name}, texture", "rows", "texture", source, check))
    return probes


def _planes(lab: Lab, n: int) -> list[Probe]:
    """Return a plane's points: as they lie, moved beyond the edge, filtered."""
    texels = np.random.default_rng(2).random((n, n), np.float32)
    plane = _Plane(lab, texels)
    probe, points = plane.probe, plane.texture()
    moved = OUTSIDE + 0.5, 1.0
    slanted = float(np.float32(OUTSIDE + 0.5 + OFFSET)), STEP
    whole = moved[0] + np.arange(n)
    between = (np.arange(n) * STEP + slanted[0]).astype(np.float32)  # as fma rounds it

    def right(wrap: bool) -> Callable[[np.ndarray], str]:
        want = sample(texels, whole, whole, linear=False, wrap=wrap)
        return partial(oracle.wrong, want=want.ravel())

    def filtered(wrap: bool, bits: int, bound: float) -> _Filtered:
        want = sample(texels, between, between, linear=True, wrap=wrap, bits=bits)
        return _Filtered(want.ravel(), bound)

    def scaled(walk: tuple[float, float]) -> tuple[float, float]:
        return walk[0] / n, walk[1] / n  # normalised

    along = partial(oracle.wrong, want=texels.ravel())
    down = partial(oracle.wrong, want=texels.T.ravel())
    wrapped, smooth = plane.texture(wrap=True), plane.texture(linear=True)
    both = plane.texture(linear=True, wrap=True)
    return [
        probe("plane along rows, load", "rows", "load", texels, along),
        probe("plane along rows, texture", "rows", "texture", points, along),
        probe("plane down columns, load", "columns", "load", texels, down, down=1),
        probe("plane down columns, texture", "columns", "texture", points, down, down=1),
        probe(
            "square blocks down columns, load", "square", "load", texels, down, down=1, square=True
        ),
        probe(
            "square blocks down columns, texture", "square", "texture", points, down, down=1,
            square=True,
        ),
        *_texel_types(plane),
        probe("clamp, texture", "rows", "texture", points, right(False), moved),
        probe("wrap, texture", "rows", "texture", wrapped, right(True), scaled(moved)),
        probe(
            "filter, load", "filter", "bilinear", texels, filtered(False, 52, 2.0**-20), slanted
        ),
        probe(
            "filter, texture", "filter", "texture", smooth,
            filtered(False, 8, FILTER_BOUND), slanted,
        ),
        probe(
            "filter and wrap, texture", "filter", "texture", both,
            filtered(True, 8, FILTER_BOUND), scaled(slanted),
        ),
    ]  # fmt: skip


def _row(outcome: Outcome, first: Outcome, timed: bool, n: int) -> Row:
    probe = outcome.probe
    if timed:
        values = {
            "seconds": outcome.seconds,
            "spread": outcome.spread,
            "bandwidth": 8 * n * n / outcome.seconds,
        }
        cost, least = outcome.seconds, first.seconds
    else:
        counted = outcome.launch.counters
        values = {
            "transactions": counted.global_transactions,
            "texture_requests": counted.texture_requests,
            "texture_sectors": counted.texture_sectors,
            "texture_hit_rate": counted.texture_hit_rate,
            "instructions": counted.warp_instructions,
        }
        cost, least = counted.warp_instructions, first.launch.counters.warp_instructions
    if isinstance(probe.check, _Filtered):
        values["error"] = probe.check.error
    share = least / cost
    return Row(probe.name, probe.parameters, values, share, _reading(outcome, first, share, timed))


def _reading(outcome: Outcome, first: Outcome, share: float, timed: bool) -> str:
    parameters = outcome.probe.parameters
    if outcome is first:
        return "to compare with"
    if not timed and parameters["how"] == "load":
        more = outcome.launch.counters.global_transactions
        least = first.launch.counters.global_transactions
        return f"{more / least:.2f} times the transactions"
    if parameters["kind"] == "filter":
        return f"weights of 8 bits; {1 / share:.2f} of the {'time' if timed else 'instructions'}"
    if not timed:
        return "no load: the texture unit fetches, through its own cache"
    return f"{1 / share:.2f} of the first's time"
