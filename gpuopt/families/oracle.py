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


def _beyond(index: np.ndarray, n: int, mode: str) -> np.ndarray:
    """Return the elements that stand for those at an index, inside of a row or beyond its ends."""
    if mode == "reflect":
        index = index % (2 * n)
        return np.minimum(index, 2 * n - 1 - index)
    if mode == "mirror":
        index = index % max(1, 2 * n - 2)
        return np.minimum(index, 2 * n - 2 - index)
    return index % n if mode == "wrap" else np.clip(index, 0, n - 1)


def stencilled(
    array: np.ndarray,
    radius: int | tuple[int, int],
    weights: np.ndarray | None = None,
    mode: str = "constant",
    axis: int = -1,
) -> Check:
    """Return the check of a stencil; floats are within a bound that grows with the radius.

    `radius` may be the inputs before and after an output's own.
    Beyond the ends of mode "constant" are zeros. Weights are from -1 to 1.
    """
    rows = np.moveaxis(array, axis, -1)
    before, after = (radius, radius) if isinstance(radius, int) else radius
    n, width, is_float = rows.shape[-1], before + 1 + after, array.dtype.kind == "f"
    rows = rows.reshape(-1, n)
    wide = np.float64 if is_float else np.int64
    eps = float(np.finfo(array.dtype).eps) if is_float else 0.0
    bound = 8 * width * eps
    by_sums = width > DIRECT_WIDTH and weights is None
    if by_sums and is_float:  # differences of running sums: off by about 1e-9
        bound = 1e-7 + width * width * eps

    def outputs(some: np.ndarray, low: int, high: int) -> np.ndarray:
        """Return the outputs from low to high of some rows."""
        begin, end = low - before - 1, high + after
        if begin >= 0 and end <= n:
            padded = some[:, begin:end].astype(wide)
        else:
            index = np.arange(begin, end)
            padded = some[:, _beyond(index, n, mode)].astype(wide)
            if mode == "constant":
                padded[:, (index < 0) | (index >= n)] = 0
        if by_sums:
            padded[:, 0] = 0
            sums = np.cumsum(padded, -1)
            return sums[:, width:] - sums[:, :-width]
        found = np.zeros((len(some), high - low), wide)
        for k in range(width):
            part = padded[:, 1 + k : 1 + k + high - low]
            found += part if weights is None else weights[k] * part
        return found

    def want(part: slice) -> np.ndarray:
        first, last = part.start // n, (part.stop - 1) // n
        if first == last:
            found = outputs(rows[first : first + 1], part.start - first * n, part.stop - first * n)
        elif last - first > 1 or n <= parts.PART // 4:
            whole = outputs(rows[first : last + 1], 0, n)
            found = whole.reshape(-1)[part.start - first * n :][: part.stop - part.start]
        else:
            middle = last * n
            return np.concatenate([want(slice(part.start, middle)), want(slice(middle, part.stop))])
        return found.reshape(-1) if is_float else found.reshape(-1).astype(array.dtype)

    def check(got: np.ndarray) -> str:
        if got.shape != array.shape:
            return f"an array of shape {got.shape}"
        return wrong(np.moveaxis(got, axis, -1), want, bound)

    return check


def combined(x: np.ndarray, y: np.ndarray | float, factor: float | None = None) -> Check:
    """Return the check of factor * x + y; of x + y, which has one right result, for None.

    Operands broadcast. `y` may be a number, which keeps x's dtype.
    """
    shape = np.broadcast_shapes(x.shape, np.shape(y))
    y = np.asarray(y, x.dtype)
    flat = x.shape == y.shape == (x.size,)
    one, other = (x, y) if flat else (np.broadcast_to(each, shape) for each in (x, y))

    def want(part: slice) -> np.ndarray:
        # A part of broadcast operands is made of whole rows.
        some, others = (each[part] if flat else _part(each, part) for each in (one, other))
        if factor is None:
            return some + others
        wide = parts.scratch("wide", part.stop - part.start)
        np.multiply(some, factor, out=wide, dtype=np.float64)
        wide += others
        return wide

    def check(got: np.ndarray) -> str:
        if got.shape != shape:
            return f"an array of shape {got.shape} instead of {shape}"
        exact = factor is None or x.dtype.kind not in "fV"
        return wrong(got, want, 0.0 if exact else 4 * eps_of(x.dtype))

    return check


def _part(array: np.ndarray, part: slice) -> np.ndarray:
    """Return a slice of an array's elements in C order; of its rows the least that hold it."""
    row = math.prod(array.shape[1:])
    if array.ndim < 2 or not row:
        return array.reshape(-1)[part]
    first, last = part.start // row, -(-part.stop // row)
    begin = part.start - first * row
    if last - first == 1:
        return _part(array[first], slice(begin, part.stop - first * row))
    return array[first:last].reshape(-1)[begin:][: part.stop - part.start]


def eps_of(dtype: np.dtype) -> float:
    """Return the distance from 1 to the next number of a dtype."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def _wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a product in float64; one chunk of the left matrix at a time is wide, for memory."""
    step = max(1, parts.PART // a.shape[1])
    return np.concatenate([a[at].astype(np.float64) @ b for at in parts.spans(len(a), step)])


def product(a: np.ndarray, b: np.ndarray) -> Check:
    """Return the check of a product of vectors, matrices or stacks, with elements of at most 1.

    The bound of an element with k terms is (k + 2) eps. For float16 and bfloat16, which are added
    in float32, it is that of float32 plus one rounding. Large matrices: some rows are checked
    element by element, and all rows by their product with a random vector of signs, which a wrong
    element changes by much more than rounding does.
    """
    k, large = a.shape[-1], a.ndim == b.ndim == 2 and max(len(a), b.shape[-1]) > WHOLE_PRODUCT
    own = eps_of(a.dtype)
    eps, relative = (own, 0.0) if a.dtype.itemsize > 2 else (2.0**-23, 4 * own)
    rng = np.random.default_rng(5)
    if not large:
        exact = np.asarray(a.astype(np.float64) @ b.astype(np.float64))
        return lambda got: wrong(got, exact, (k + 2) * eps, relative)
    shape = len(a), b.shape[-1]
    rows = np.unique(rng.integers(0, len(a), CHECKED_ROWS))
    signs = rng.choice([-1.0, 1.0], shape[1])
    want = _wide_product(b.T, a[rows].astype(np.float64).T).T
    signed = _wide_product(a, _wide_product(b, signs))

    def check(got: np.ndarray) -> str:
        if got.shape != shape:
            return f"an array of shape {got.shape} instead of {shape}"
        error = wrong(got[rows], want, (k + 2) * eps, relative)
        if error:
            return error
        each = eps * k + relative * math.sqrt(k)
        added = 2.0**-52 * math.sqrt(k) * shape[1]  # rounding of the check's own sums
        bound = 4 * each * math.sqrt(shape[1]) + each + added
        return wrong(_wide_product(got, signs), signed, bound)

    return check
