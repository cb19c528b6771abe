"""Random calls of the public functions against NumPy: values, dtypes, shapes and errors.

`run(device, count, seed)` returns the cases that differ. From the command line, in chunks:
PYTHONPATH=. python tests/random_cases.py cpu 100000 [SEED]
"""

import sys
import warnings

import numpy as np

import gpuopt

REALS = ["f2", "f4", "f8"]
INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
DTYPES = ["?", *INTEGERS, *REALS, "c8", "c16"]
REDUCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "any": np.any,
    "all": np.all,
    "count": np.count_nonzero,
    "argmin": np.argmin,
    "argmax": np.argmax,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def values(rng, shape, kind):
    """Return numbers of any size, with ties, zeros of both signs and a few infinities and NaNs."""
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.05, 0.5, 0.95])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.random() < 0.5
        low, high = (info.min, info.max) if wide else (max(info.min, -3), 4)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        part = f"f{dtype.itemsize // 2}"
        return (np.nan_to_num(values(rng, shape, part), posinf=1, neginf=-1) * (1 + 0.5j)).astype(
            dtype
        )
    data = rng.standard_normal(shape)
    if rng.random() < 0.3:
        data = np.round(data * 2)  # ties, and zeros of both signs
    if rng.random() < 0.2:
        data *= 10.0 ** rng.integers(-5, 4)
    data = np.asarray(data, dtype)
    if rng.random() < 0.1 and data.size:
        flat = data.reshape(-1)
        flat[rng.integers(0, data.size, 2)] = rng.choice([np.nan, np.inf, -np.inf, 0.0], 2)
    return data


def shape_of(rng, most):
    ndim = int(rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]))
    shape = []
    for _ in range(ndim):
        room = max(1, int(most ** (1 / ndim)))
        shape.append(int(rng.choice([0, 1, 2, 3, 7, *rng.integers(1, room + 1, 12)])))
    return tuple(shape)


def layout(rng, data):
    """Return the same elements in another layout: permuted, with steps, swapped or broadcast."""
    if data.ndim and rng.random() < 0.6:
        order = rng.permutation(data.ndim)
        steps = [int(rng.choice([1, 1, 2, 3, -1, -2])) for _ in order]
        room = [data.shape[a] * abs(s) + 1 for a, s in zip(order, steps, strict=True)]
        base = np.zeros(room, data.dtype)
        view = base[tuple(slice(None, None, s) for s in steps)]
        view = view[tuple(slice(0, data.shape[a]) for a in order)]
        view = view.transpose(np.argsort(order))
        view[...] = data
        data = view
    if rng.random() < 0.15:
        data = data.astype(data.dtype.newbyteorder())
    if data.ndim and rng.random() < 0.1:
        axis = int(rng.integers(data.ndim))
        if data.shape[axis]:
            data = np.broadcast_to(data.take([0], axis), data.shape)
    return data


def outcome(function):
    """Return a value, or the class of the error that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function()
        except (TypeError, ValueError, OverflowError, ZeroDivisionError, IndexError) as error:
            return error


def differs(got, want, slack):
    """Return how two outcomes differ, or "". slack: of floats, an array or a number."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        if isinstance(got, Exception) and isinstance(want, Exception):
            return ""
        return f"{got!r:.200} for {want!r:.200}"
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} for {want.dtype}{want.shape}"
    if want.dtype.kind not in "fc" or slack is None:
        same = got.tobytes() == want.tobytes() or bool(
            np.array_equal(got, want, equal_nan=want.dtype.kind in "fc")
        )
        return "" if same else f"{got!r:.200} for {want!r:.200}"
    with np.errstate(all="ignore"):
        near = np.abs(got.astype("c16") - want.astype("c16")) <= slack
        near |= (got == want) | (np.isnan(got) & np.isnan(want))
    return "" if near.all() else f"{got!r:.300} for {want!r:.300}"


def may_overflow(a, dtype):
    """Return whether some order of multiplying passes through an infinity or a zero."""
    kind = np.result_type(a.dtype if dtype is None else dtype)
    if kind.kind not in "fc":
        return False
    with np.errstate(all="ignore"):
        powers = np.log2(np.abs(a.astype("c16")))
    powers = powers[np.isfinite(powers)]
    info = np.finfo(kind)
    return (
        powers[powers > 0].sum() >= info.maxexp - 1 or powers[powers < 0].sum() <= info.minexp + 1
    )


def bound(a, axis, op, dtype, keepdims, initial):
    """Return how far two orders of adding may be apart; None: equal bits."""
    kind = np.result_type(a.dtype if dtype is None else dtype)
    if op == "mean" and kind.kind not in "fc":
        kind = np.dtype("f8")
    if op not in ("sum", "mean", "prod") or kind.kind not in "fc":
        return None
    with np.errstate(all="ignore"):
        size = np.abs(a.astype("c16"))
        n = max(1, a.size)
        unit = np.finfo(kind).eps
        if op == "prod":
            exact = np.prod(a.astype("c16"), axis=axis, keepdims=keepdims)
            return 4 * n * (unit * np.abs(exact) + np.finfo(kind).smallest_subnormal)
        total = np.sum(size, axis=axis, keepdims=keepdims) + abs(initial)
        return (4 * np.log2(n + 1) + 40) * unit * total + np.finfo(kind).tiny


def reduction(rng, most):
    op = str(rng.choice(list(REDUCTIONS)))
    complex_too = op in ("sum", "prod", "mean", "any", "all", "count")
    kind = str(rng.choice(DTYPES if complex_too else DTYPES[:-2]))  # as documented
    a = layout(rng, values(rng, shape_of(rng, most), kind))
    axis = None
    if a.ndim and rng.random() < 0.7:
        count = (
            1 if op.startswith("arg") or rng.random() < 0.6 else int(rng.integers(0, a.ndim + 1))
        )
        chosen = rng.permutation(a.ndim)[:count]
        chosen = tuple(int(x) - (a.ndim if rng.random() < 0.3 else 0) for x in chosen)
        axis = chosen[0] if count == 1 and rng.random() < 0.8 else chosen
        axis = a.ndim + 1 if rng.random() < 0.02 else axis
    options = {"keepdims": bool(rng.random() < 0.3), "axis": axis}
    if op in ("sum", "prod", "mean") and rng.random() < 0.25:
        options["dtype"] = np.dtype(str(rng.choice(["i4", "i8", "u8", "f4", "f8"])))
    if op in ("sum", "prod", "min", "max") and rng.random() < 0.2:
        options["initial"] = [0, 1, -2, 2.5, -0.0][int(rng.integers(5))]
    function = REDUCTIONS[op]
    if options.get("dtype") is not None and a.dtype.kind == "c" and options["dtype"].kind != "c":
        del options["dtype"]  # NumPy warns and drops the imaginary part
    if options.get("dtype", a.dtype).kind in "iu" and not np.isfinite(a).all():
        return None  # no integer for an infinity is defined
    shown = f"reduce({a.dtype}{a.shape} strides {a.strides}, {op!r}, {options})"
    want = outcome(lambda: function(a, **options))
    slack = None
    if not isinstance(want, Exception):
        dtype, keepdims = options.get("dtype"), options["keepdims"]
        initial = options.get("initial", 0)
        slack = outcome(lambda: bound(a, axis, op, dtype, keepdims, initial))
        if np.asarray(want).dtype == "f2" and slack is not None:
            return None  # NumPy adds and rounds float16 in another order; test_numpy_rules.py
        if op == "prod" and slack is not None and may_overflow(a, dtype):
            return None  # whether an infinity meets a zero depends on the order
    device = {}
    if not isinstance(want, Exception) and np.ndim(want) and rng.random() < 0.2:
        out = layout(rng, np.zeros_like(want))
        if out.flags.writeable and out.dtype.isnative:
            device["out"] = out
    return shown, lambda d: gpuopt.reduce(a, op, device=d, **options, **device), want, slack


def transposition(rng, most):
    a = layout(rng, values(rng, shape_of(rng, most), str(rng.choice(DTYPES))))
    axes = None
    if rng.random() < 0.8:
        axes = [int(x) - (a.ndim if rng.random() < 0.3 else 0) for x in rng.permutation(a.ndim)]
        if rng.random() < 0.03:
            axes.append(0)
    want = outcome(
        lambda: np.ascontiguousarray(np.transpose(a, axes)).reshape(np.transpose(a, axes).shape)
    )
    shown = f"transpose({a.dtype}{a.shape} strides {a.strides}, {axes})"
    return shown, lambda d: gpuopt.transpose(a, axes, device=d), want, None


def addition(rng, most):
    kind = str(rng.choice(["i4", "i8", "f4", "f8"]))
    shape = shape_of(rng, most)
    a = layout(rng, values(rng, shape, kind))
    other = tuple(1 if rng.random() < 0.3 else n for n in shape)
    other = other[int(rng.integers(0, len(other) + 1)) :] if rng.random() < 0.3 else other
    b = layout(rng, values(rng, other, kind))
    if rng.random() < 0.3 and kind[0] == "f":
        factor = float(rng.standard_normal())
        want = outcome(lambda: np.dtype(kind).type(factor) * a + b)
        exact = outcome(lambda: np.abs(np.float64(factor) * a) + np.abs(b))
        slack = 4 * np.finfo(kind).eps * exact
        shown = f"saxpy({factor}, {a.dtype}{a.shape}, {b.dtype}{b.shape})"
        return shown, lambda d: gpuopt.saxpy(factor, a, b, device=d), want, slack
    want = outcome(lambda: (a + b).astype(kind))
    shown = f"add({a.dtype}{a.shape} {a.strides}, {b.dtype}{b.shape} {b.strides})"
    return shown, lambda d: gpuopt.add(a, b, device=d), want, None


PADS = {"constant": "constant", "nearest": "edge", "reflect": "symmetric", "mirror": "reflect"}
PADS["wrap"] = "wrap"


def stencil(rng, most):
    kind = str(rng.choice(["i4", "i8", "f4", "f8"]))
    shape = tuple(max(2, n) for n in shape_of(rng, most)) or (5,)
    a = layout(rng, values(rng, shape, kind))
    axis = int(rng.integers(-a.ndim, a.ndim))
    n = a.shape[axis]
    radius = int(rng.integers(0, min(n, 9)))
    mode = str(rng.choice([*PADS, "valid"]))
    cval = int(rng.integers(-2, 3)) if mode == "constant" else 0

    def reference():
        moved = np.moveaxis(a, axis, -1).astype(kind)
        if mode != "valid":
            pad = [(0, 0)] * (a.ndim - 1) + [(radius, radius)]
            more = {"constant_values": cval} if mode == "constant" else {}
            moved = np.pad(moved, pad, mode=PADS[mode], **more)
        wide = (
            np.lib.stride_tricks.sliding_window_view(moved, 2 * radius + 1, axis=-1)
            if (moved.shape[-1] > 2 * radius)
            else np.zeros((*moved.shape[:-1], 0, 1), kind)
        )
        return np.moveaxis(wide.sum(axis=-1, dtype=kind), -1, axis), np.abs(wide.astype("f8")).max(
            initial=0
        )

    found = outcome(reference)
    want, size = (found, 0) if isinstance(found, Exception) else found
    slack = (8 * radius + 8) ** 2 * np.finfo(kind).eps * size if kind[0] == "f" else None
    shown = f"stencil1d({a.dtype}{a.shape} {a.strides}, {radius}, mode={mode!r}, axis={axis})"

    def call(device):
        return gpuopt.stencil1d(a, radius, mode=mode, cval=cval, axis=axis, device=device)

    if not np.isfinite(np.asarray(a, "f8")).all():
        return None  # sliding sums of infinities are NaN further on
    return shown, call, want, slack


def product(rng, most):
    kind = str(rng.choice(["f4", "f8"]))
    m, k, n = (int(x) for x in rng.integers(0, max(2, int(most**0.5)), 3))
    a, b = (
        values(rng, s, kind) if rng.random() < 0.9 else values(rng, s[:1], kind)
        for s in ((m, k), (k if rng.random() < 0.95 else k + 1, n))
    )
    a, b = (layout(rng, np.nan_to_num(x, posinf=1, neginf=-1)) for x in (a, b))
    want = outcome(lambda: np.matmul(a, b))
    size = outcome(lambda: np.matmul(np.abs(a).astype("f8"), np.abs(b).astype("f8")))
    slack = 0 if isinstance(size, Exception) else 4 * (k + 8) * np.finfo(kind).eps * size
    shown = f"matmul({a.dtype}{a.shape} {a.strides}, {b.dtype}{b.shape} {b.strides})"
    return shown, lambda d: gpuopt.matmul(a, b, device=d), want, slack


KINDS = [reduction] * 6 + [transposition] * 2 + [addition] * 2 + [stencil] * 2 + [product]


def run(device, count, seed, most=3000):
    """Return the cases that differ from NumPy's."""
    wrong = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        case = KINDS[int(rng.integers(len(KINDS)))](rng, most)
        if case is None:
            continue
        shown, call, want, slack = case
        if device != "cpu" and "'prod'" in shown and np.asarray(want).dtype.kind == "c":
            continue  # as documented
        problem = differs(outcome(lambda: call(device)), want, slack)  # noqa: B023
        if problem:
            wrong.append(f"[{seed}, {i}] {shown}: {problem}")
    return wrong


if __name__ == "__main__":
    device, count = sys.argv[1], int(sys.argv[2])
    start = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    for chunk in range(start, start + -(-count // 1000)):
        for line in run(device, 1000, chunk, 3000 if device == "cpu" else 400):
            print(line, flush=True)
        print(f"chunk {chunk}", flush=True)
