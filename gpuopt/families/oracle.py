"""Random inputs, and the check of results against NumPy: one generator, one comparison.

Ladders, benches, sweeps and experiments verify through `wrong`, in which NaN never passes. The
makers below it know the right result of a family's call and state how far a result may be off.
Right results are computed by NumPy alone, in float64 for floating-point elements, chunk by chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gpuopt.util import parts

TILE = (16 << 20) - 3  # random elements, a prime number; longer arrays repeat them
CHECKED_ROWS = 16  # of a large matrix product, element by element
DIRECT_WIDTH = 32  # of a stencil: a wider one is the difference of running sums
WHOLE_PRODUCT = 1024  # rows up to which a whole product is checked element by element

Check = Callable[[np.ndarray], str]  # the error of a result, "" for none


def draw(n: int, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Return n random elements: any integer, bools, floats from -1 to 1.

    Fewer elements are the first ones of more. An array longer than `TILE` repeats them.
    """
    count = min(n, TILE)
    if dtype.kind == "b":
        tile = rng.integers(0, 2, count, np.uint8).view(np.bool_)
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        tile = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    else:
        wide = np.float64 if dtype.itemsize >= 8 and dtype.name != "complex64" else np.float32
        floats = rng.random(count * (1 + (dtype.kind == "c")), wide)
        floats *= 2
        floats -= 1
        if dtype.kind == "c":
            floats = floats.view(np.complex128 if wide is np.float64 else np.complex64)
        tile = floats.astype(dtype, copy=False)
    return parts.repeated(tile, n) if n > count else tile


def _near(
    got: np.ndarray, want: np.ndarray, absolute: float | np.ndarray, relative: float
) -> np.ndarray:
    """Return for each element whether it is within the bound; NaN never is."""
    got, want = parts.plain(got), parts.plain(want)
    if want.dtype.kind in "biu" or not (relative or np.any(absolute)):
        return got == want
    want = want.astype(np.float64, copy=False)
    apart, within = parts.scratch("apart", got.size), parts.scratch("within", got.size, np.bool_)
    apart[:] = got
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(apart, want, out=apart)
        np.abs(apart, out=apart)
        bound = absolute + relative * np.abs(want) if relative else absolute
        return np.less_equal(apart, bound, out=within)


def wrong(
    got: np.ndarray,
    want: np.ndarray | Callable[[slice], np.ndarray],
    absolute: float | np.ndarray = 0.0,
    relative: float = 0.0,
) -> str:
    """Return how an array differs from the right one by more than a bound, or "".

    Parameters
    ----------
    got : ndarray
    want : ndarray or callable
        The right elements; or a function that returns a slice of them, flat.
    absolute : float or ndarray
        The bound; an array holds one for each element. Integers, and floats with a bound of 0,
        have to be equal.
    relative : float
        Added to the bound for each unit of the wanted element's magnitude.
    """
    if isinstance(want, np.ndarray):
        if got.shape != want.shape:
            return f"an array of shape {got.shape} instead of {want.shape}"
        flat = want.reshape(-1)
        want = lambda part: flat[part]  # noqa: E731
    bounds = absolute.reshape(-1) if isinstance(absolute, np.ndarray) and absolute.ndim else None
    items = got.reshape(-1)

    def off(part: slice) -> tuple[int, int]:
        bound = absolute if bounds is None else bounds[part]
        right = _near(items[part], want(part), bound, relative)
        count = right.size - int(np.count_nonzero(right))
        return count, part.start + int(right.argmin()) if count else 0

    found = [each for each in parts.each(off, parts.spans(items.size)) if each[0]]
    if not found:
        return ""
    at = found[0][1]
    if got.ndim == 0:
        allowed = f" (allowed error {absolute:g})" if np.any(absolute) else ""
        return f"{got[()]!r} instead of {want(slice(0, 1))[0]!r}{allowed}"
    return (
        f"{sum(count for count, _ in found):,} wrong items, the first of them number {at:,}: "
        f"{items[at]!r} instead of {want(slice(at, at + 1))[0]!r}"
    )


# --- the right results of the families


def transposed(array: np.ndarray, axes: Sequence[int] | None = None) -> Check:
    """Return the check of a transpose: every byte."""
    right = np.transpose(array, axes)

    def check(got: np.ndarray) -> str:
        if got.shape != right.shape or got.dtype != right.dtype:
            return f"an array of shape {got.shape}, {got.dtype}"
        first = parts.not_transposed(got, array, axes)
        if first is None:
            return ""
        row = first // math.prod(got.shape[1:])
        return f"another array from row {row:,} to {row + 1:,}"

    return check


def stencilled(array: np.ndarray, radius: int) -> Check:
    """Return the check of a stencil; floats are within a bound that grows with the radius."""
    n, width, is_float = array.size, 2 * radius + 1, array.dtype.kind == "f"
    wide = np.float64 if is_float else np.int64
    eps = float(np.finfo(array.dtype).eps) if is_float else 0.0
    bound = 8 * width * eps
    if width > DIRECT_WIDTH and is_float:  # differences of running sums: off by about 1e-9
        bound = 1e-7 + width * width * eps

    def want(part: slice) -> np.ndarray:
        low, high = max(0, part.start - radius), min(n, part.stop + radius)
        size, first = part.stop - part.start, 1 + low - (part.start - radius)
        padded = parts.scratch("padded", size + width, wide)
        padded[:first] = padded[first + high - low :] = 0
        padded[first:][: high - low] = array[low:high]
        sums = parts.scratch("sums", padded.size, wide)
        if width > DIRECT_WIDTH:
            np.cumsum(padded, out=sums)
            found = np.subtract(sums[width:], sums[:size], out=padded[:size])
        else:
            found = sums[:size]
            found[...] = padded[1 : 1 + size]
            for k in range(2, 1 + width):
                found += padded[k : k + size]
        return found if is_float else found.astype(array.dtype)

    def check(got: np.ndarray) -> str:
        if got.shape != array.shape:
            return f"an array of shape {got.shape}"
        return wrong(got, want, bound)

    return check


def combined(x: np.ndarray, y: np.ndarray, factor: float | None = None) -> Check:
    """Return the check of factor * x + y; of x + y, which has one right result, for None."""

    def want(part: slice) -> np.ndarray:
        if factor is None:
            return x[part] + y[part]
        wide = parts.scratch("wide", part.stop - part.start)
        np.multiply(x[part], factor, out=wide, dtype=np.float64)
        wide += y[part]
        return wide

    def check(got: np.ndarray) -> str:
        if got.shape != x.shape:
            return f"an array of shape {got.shape} instead of {x.shape}"
        return wrong(got, want, 0.0 if factor is None else 4 * float(np.finfo(x.dtype).eps))

    return check


def _wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a product in float64; one chunk of the left matrix at a time is wide, for memory."""
    step = max(1, parts.PART // a.shape[1])
    return np.concatenate([a[at].astype(np.float64) @ b for at in parts.spans(len(a), step)])


def product(a: np.ndarray, b: np.ndarray) -> Check:
    """Return the check of a product of square matrices, with elements of at most 1.

    A row is within (n + 2) eps. In a large product some rows are checked element by element, and
    all of them by their product with a random vector of signs: a wrong element changes that, and
    rounding by much less.
    """
    side = a.shape[0]
    eps = float(np.finfo(a.dtype).eps)
    rng = np.random.default_rng(5)
    rows = np.arange(side)
    if side > WHOLE_PRODUCT:
        rows = np.unique(rng.integers(0, side, CHECKED_ROWS))
    signs = rng.choice([-1.0, 1.0], side)
    want = _wide_product(b.T, a[rows].astype(np.float64).T).T
    signed = _wide_product(a, _wide_product(b, signs)) if side > WHOLE_PRODUCT else None

    def check(got: np.ndarray) -> str:
        if got.shape != a.shape:
            return f"an array of shape {got.shape} instead of {a.shape}"
        error = wrong(got[rows], want, (side + 2) * eps)
        if error or signed is None:
            return error
        each = eps * side
        return wrong(_wide_product(got, signs), signed, 4 * each * math.sqrt(side) + each)

    return check
