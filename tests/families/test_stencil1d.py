"""The stencil on every rung of every device, against scipy.ndimage.correlate1d and exact integers.

Bounds, with u the unit roundoff of the dtype that a rung adds up in: (2r + 2) * u * sum(|w x|), and
u once more where the result is rounded to float32.
"""

import numpy as np
import pytest
from conftest import KINDS, blocks_of, device_rungs, kinds, on, run_python, rungs_of

import gpuopt

MODES = ["constant", "nearest", "reflect", "mirror", "wrap", "valid"]
PADS = {"constant": "constant", "nearest": "edge", "reflect": "symmetric", "mirror": "reflect",
        "wrap": "wrap"}  # fmt: skip
DTYPES = ["int32", "int64", "float32", "float64"]
SIZES = [1, 2, 3, 7, 31, 33, 256, 1000, 4099]
FAMILY = "stencil1d"


def windows(array, radius, mode, cval):
    """Return every output's inputs along the last axis, shape (..., outputs, 2 * radius + 1)."""
    if mode != "valid":
        extra = {"constant_values": cval} if mode == "constant" else {}
        array = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(radius, radius)], PADS[mode], **extra)
    if array.shape[-1] < 2 * radius + 1:
        return np.empty((*array.shape[:-1], 0, 2 * radius + 1), array.dtype)
    return np.lib.stride_tricks.sliding_window_view(array, 2 * radius + 1, -1)


def exact(array, weights, mode, cval):
    """Return integer outputs, wrapped, or float outputs in longdouble; and sum(|w x|)."""
    radius = weights.size // 2
    if array.dtype.kind == "i":
        inputs = windows(array, radius, mode, cval)
        return (inputs * weights.astype(array.dtype)).sum(-1, dtype=array.dtype), 0
    inputs = windows(array.astype(np.longdouble), radius, mode, cval)
    terms = inputs * weights.astype(np.longdouble)
    return terms.sum(-1), np.abs(terms).sum(-1)


def check(rung, got, array, weights, mode="constant", cval=0):
    want, size = exact(array, weights, mode, cval)
    assert got.dtype == array.dtype.newbyteorder("=") and got.shape == want.shape
    if array.dtype.kind == "i":
        assert np.array_equal(got, want)
        return
    single = array.dtype.itemsize == 4
    narrow = single and not rung.host and not rung.best
    unit = 2.0**-24 if narrow else 2.0**-53
    bound = (weights.size + 1) * unit * size + (2.0**-24 * np.abs(want) * 1.01 if single else 0)
    assert (np.abs(got - want) <= bound).all(), (rung.name, array.shape, weights.size, mode, cval)


def draw(rng, dtype, n):
    dtype = np.dtype(dtype)
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
    return rng.standard_normal(n).astype(dtype)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_every_rung_dtype_mode_and_size(device, rung, dtype, mode, rng):
    for n in SIZES:
        array = draw(rng, dtype, n)
        for radius in (0, 1, 3, 5, 40):
            weights = np.ones(2 * radius + 1, int)
            cval = 0 if radius % 2 else 7
            got = gpuopt.stencil1d(
                array, radius, mode=mode, cval=cval, variant=rung.variant, device=device
            )
            check(rung, got, array, weights, mode, cval)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_and_blocks(device, rung, dtype, rng):
    for n in (1, 300, 2100):
        array = draw(rng, dtype, n)
        for width in (1, 7, 9, 101):
            weights = draw(rng, dtype, width)
            for block in blocks_of(rung):
                for mode in ("reflect", "constant"):
                    got = gpuopt.stencil1d(array, weights=weights, mode=mode, cval=3, block=block,
                                           variant=rung.variant, device=device)  # fmt: skip
                    check(rung, got, array, weights, mode, 3)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("mode", MODES)
def test_radius_larger_than_the_block_and_the_array(device, rung, mode, rng):
    for n in (1, 5, 300):
        for radius in (511, 512, 513, 1100):  # around what shared memory holds at a time
            for dtype in ("int64", "float64"):
                array = draw(rng, dtype, n)
                got = gpuopt.stencil1d(
                    array, radius, mode=mode, cval=-2, variant=rung.variant, device=device
                )
                check(rung, got, array, np.ones(2 * radius + 1, int), mode, -2)


# Rows of one element, shorter than the radius, of a partial vector, of several tiles.
SHAPES = [(3, 1), (50, 3), (7, 16), (300, 16), (2, 3, 33), (3, 1000), (2, 4099)]


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("mode", MODES)
def test_rows_of_every_mode_and_rung(device, rung, mode, rng):
    for i, shape in enumerate(SHAPES):
        for j, radius in enumerate((1, 3, 6, 20)):
            array = draw(rng, DTYPES[(i + j) % len(DTYPES)], shape)
            call = {"mode": mode, "cval": 7 * (j % 2), "variant": rung.variant, "device": device}
            got = gpuopt.stencil1d(array, radius, **call)
            check(rung, got, array, np.ones(2 * radius + 1, int), mode, call["cval"])
            if i == j:
                weights = draw(rng, array.dtype, 2 * radius + 1)
                got = gpuopt.stencil1d(array, weights=weights, **call)
                check(rung, got, array, weights, mode, call["cval"])
    for shape, radius in (((700, 3), 1), ((900, 5), 2)):  # a vector spans several rows
        array = draw(rng, "float32", shape)
        weights = draw(rng, "float32", 2 * radius + 1)
        got = gpuopt.stencil1d(
            array, weights=weights, mode=mode, variant=rung.variant, device=device
        )
        check(rung, got, array, weights, mode)
    for shape, radius in (((5, 70), 300), ((2, 2300), 520)):  # several chunks; sums of sums
        array = draw(rng, "int32", shape)
        got = gpuopt.stencil1d(array, radius, mode=mode, variant=rung.variant, device=device)
        check(rung, got, array, np.ones(2 * radius + 1, int), mode)


@pytest.mark.parametrize("device", kinds())
def test_axes_as_in_scipy(device, rng):
    ndimage = pytest.importorskip("scipy.ndimage")
    array = rng.integers(-1000, 1000, (3, 40, 5))
    for axis in range(-3, 3):
        for radius, mode in ((2, "reflect"), (9, "wrap"), (50, "mirror")):
            want = ndimage.correlate1d(array, np.ones(2 * radius + 1, int), axis, mode=mode)
            call = {"mode": mode, "axis": axis, "device": device}
            got = gpuopt.stencil1d(array, radius, **call)
            assert np.array_equal(got, want) and got.flags.c_contiguous
            assert np.array_equal(gpuopt.stencil1d(array[:, ::-1], radius, **call), np.asarray(
                ndimage.correlate1d(array[:, ::-1], np.ones(2 * radius + 1, int), axis, mode=mode)
            ))  # fmt: skip
            for out in (np.empty_like(array), np.empty((5, 40, 3), array.dtype).T, array.copy()):
                assert gpuopt.stencil1d(array, radius, out=out, **call) is out
                assert np.array_equal(out, want)
        got = gpuopt.stencil1d(array, 2, mode="valid", axis=axis, device=device)
        assert got.shape[axis] == max(0, array.shape[axis] - 4)
    same = array.copy()
    gpuopt.stencil1d(same, 2, out=same, axis=1, device=device)
    assert np.array_equal(same, ndimage.correlate1d(array, np.ones(5, int), 1, mode="constant"))


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in ("cuda", "sim")])
def test_arrays_on_a_device(device, rng):
    host = draw(rng, "float32", (5, 37))
    array = gpuopt.asarray(host, device=device)
    for radius in (0, 3, 6, 9):
        for mode in MODES:
            got = gpuopt.stencil1d(array, radius, mode=mode, axis=1)
            want = gpuopt.stencil1d(host, radius, mode=mode, device="cpu")
            np.testing.assert_allclose(got.get(), want, rtol=1e-6, atol=1e-6)
            for axis in (0, -2):
                got = gpuopt.stencil1d(array, radius, mode=mode, axis=axis)
                want = gpuopt.stencil1d(host, radius, mode=mode, axis=axis, device="cpu")
                np.testing.assert_allclose(got.get(), want, rtol=1e-6, atol=1e-6)
    out = gpuopt.empty(host.shape, host.dtype, device)
    assert gpuopt.stencil1d(array, weights=[1, 0, -1], axis=0, out=out) is out
    want = gpuopt.stencil1d(host, weights=[1, 0, -1], axis=0, device="cpu")
    np.testing.assert_allclose(out.get(), want, rtol=1e-6, atol=1e-6)
    with pytest.raises(np.exceptions.AxisError):
        gpuopt.stencil1d(array, axis=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_by_parts(dtype, rng):
    """Few columns, and short ones: a thread takes an output of each part of one of the axes."""
    for shape in ((70, 9, 2), (64, 3, 3), (2, 4, 70), (1, 100, 3), (3, 75, 2)):
        host = draw(rng, dtype, shape)
        array = gpuopt.asarray(host, "sim")
        for mode in MODES:
            for size, origin in ((2, 0), (3, 1), (5, -2)):
                how = {"weights": draw(rng, dtype, size), "mode": mode, "axis": 1, "origin": origin}
                if mode != "valid":
                    how["cval"] = 2
                elif origin:
                    continue
                got = gpuopt.stencil1d(array, **how).get()
                want = gpuopt.stencil1d(host, device="cpu", **how)
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in KINDS if kind != "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_without_vector_alignment(device, dtype, rng):
    """Rows of several tiles whose inputs and outputs have any offset from 16 bytes."""
    array = draw(rng, dtype, (2, 6001))
    (rung,) = (each for each in gpuopt.rungs(FAMILY) if each.variant == 5)
    for radius, mode in ((7, "nearest"), (8, "wrap"), (9, "valid"), (10, "valid"), (67, "reflect"),
                         (300, "constant")):  # fmt: skip
        got = gpuopt.stencil1d(array, radius, mode=mode, variant=5, device=device)
        check(rung, got, array, np.ones(2 * radius + 1, int), mode)


def windows_of_tiles(dtype):
    """Yield calls without vector loads: wide, weighted and shifted windows, any constant."""
    for radius in (5, 6, 7, 8):
        yield {"radius": radius}, 0
    for radius in (5, 6, 7, 8, 16, 17, 40, 300):
        yield {"weights": radius}, 2
    cval = 0.1 if dtype[0] == "f" else 0.75  # no value that a float32 or an integer has
    yield {"radius": 6}, cval
    yield {"weights": 9}, cval


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in KINDS if kind != "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_windows_of_tiles(device, dtype, mode, rng):
    """One row with a whole tile inside, and rows that share tiles; on rung 5's own kernel."""
    (rung,) = (each for each in gpuopt.rungs(FAMILY) if each.variant == 5)
    for shape in ((6100,), (3, 1500), (40, 70)):
        array = draw(rng, dtype, shape)
        calls = [*windows_of_tiles(dtype)]
        if device == "sim" and shape != (40, 70):  # a mode is the same code for every window
            calls = calls[MODES.index(mode) % 2 :: 2]
        for call, cval in calls:
            radius = call.get("radius", call.get("weights"))
            weights = np.ones(2 * radius + 1, int)
            if "weights" in call:
                weights = call["weights"] = draw(rng, dtype, 2 * radius + 1)
            if array.dtype.kind == "i" and cval % 1:
                array = rng.integers(-1000, 1000, shape).astype(dtype)
                weights = weights % 9 - 4.25 if "weights" in call else weights
                call["weights"] = weights
            call |= {"mode": mode, "cval": cval, "variant": 5, "device": device}
            if device == "sim":
                got = gpuopt.profile(gpuopt.stencil1d, array, **call)
                assert {each.kernel[:11] for each in got.launches} <= {"stencil1d_5"}
                got = got.result
            else:
                got = gpuopt.stencil1d(array, **call)
            if array.dtype.kind == "i" and cval % 1:  # in float64, cut off
                want = windows(array.astype(float), radius, mode, cval) @ weights
                assert np.array_equal(got, want.astype(dtype))
            else:
                check(rung, got, array, weights, mode, cval)


class Part:
    """A view of a device array from element `start` on, as another library would export it."""

    def __init__(self, array, start, n):
        told = dict(array.__cuda_array_interface__)
        told["data"] = (told["data"][0] + start * array.dtype.itemsize, False)
        self.__cuda_array_interface__ = {**told, "shape": (n,)}
        self.holder = array


@pytest.mark.parametrize("device, rung", [
    each for each in device_rungs(family=FAMILY) if each.values[0] == "cuda"
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_without_vector_alignment(device, rung, dtype, rng):
    host = draw(rng, dtype, 10_000)
    array, out = gpuopt.asarray(host, device=device), gpuopt.asarray(host, device=device)
    for start, to in ((1, 0), (0, 1), (3, 2), (2, 2)):
        for radius in (0, 1, 3, 5, 6, 30):
            part = Part(array, start, 9000)
            weights = draw(rng, dtype, 2 * radius + 1)
            for call in ({"radius": radius}, {"weights": weights}):
                gpuopt.stencil1d(part, variant=rung.variant, out=Part(out, to, 9000), **call)
                check(rung, out.get()[to : to + 9000], host[start : start + 9000],
                      call.get("weights", np.ones(2 * radius + 1, int)))  # fmt: skip


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in KINDS if kind == "sim"])
@pytest.mark.parametrize("radius, steps", [(3, 4), (16, 9)])
def test_short_rows_cost_little_more(device, radius, steps, rng):
    """Rows of 16 elements cost few more instructions than one long row."""
    array = rng.random((1 << 11, 16), np.float32)
    found = []
    for shape in ((1, array.size), array.shape):
        profile = gpuopt.profile(gpuopt.stencil1d, array.reshape(shape), radius, device=device)
        found.append(profile.counters)
    long, short = found
    assert short.global_store_sectors <= 2.1 * long.global_store_sectors
    assert short.global_load_sectors <= 5 * long.global_load_sectors
    assert short.warp_instructions <= steps * long.warp_instructions


# scipy.ndimage.correlate1d([1, 2, 3], ones(9), mode=...): radius 4, 3 elements.
PINNED = {
    "constant": [6, 6, 6],
    "nearest": [16, 18, 20],
    "reflect": [20, 18, 16],
    "mirror": [17, 18, 19],
    "wrap": [18, 18, 18],
}
PINNED_WEIGHTED = {  # and with the weights 1, 2, 3, ..., 9
    "constant": [38, 32, 26],
    "nearest": [99, 110, 119],
    "reflect": [99, 88, 79],
    "mirror": [85, 86, 95],
    "wrap": [87, 96, 87],
}


@pytest.mark.parametrize("device", kinds())
def test_modes_as_in_scipy(device, rng):
    ndimage = pytest.importorskip("scipy.ndimage")
    for rung in rungs_of(device, family=FAMILY):
        call = {"variant": rung.variant, "device": device}
        for n in (1, 2, 3, 10, 300):
            array = draw(rng, "float64", n)
            for width in (1, 7, 23, 701):
                weights = draw(rng, "float64", width)
                for mode in PADS:
                    got = gpuopt.stencil1d(array, weights=weights, mode=mode, cval=0.5, **call)
                    want = ndimage.correlate1d(array, weights, mode=mode, cval=0.5)
                    size = ndimage.correlate1d(abs(array), abs(weights), mode=mode, cval=0.5)
                    assert (abs(got - want) <= 2 * (width + 1) * 2.0**-53 * size).all()
        # Integers with non-integer weights or constants: computed in float64, then truncated.
        for dtype in ("int32", "int64"):
            array = rng.integers(-1000, 1000, 200).astype(dtype)
            quarters = rng.integers(-9, 9, 7) / 4
            got = gpuopt.stencil1d(array, weights=quarters, mode="mirror", **call)
            assert np.array_equal(got, ndimage.correlate1d(array, quarters, mode="mirror"))
            got = gpuopt.stencil1d(array, 2, cval=0.75, **call)
            assert np.array_equal(
                got, ndimage.correlate1d(array, np.ones(5), mode="constant", cval=0.75)
            )


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_modes_match_pinned_values(device, rung):
    for pinned, weights in ((PINNED, np.ones(9, int)), (PINNED_WEIGHTED, np.arange(1, 10))):
        for mode, want in pinned.items():
            got = gpuopt.stencil1d(
                [1, 2, 3], weights=weights, mode=mode, variant=rung.variant, device=device
            )
            assert got.tolist() == want, mode


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_spike_or_nan_reaches_only_its_neighbours(device, rung, dtype, rng):
    for radius, weights in ((0, None), (1, None), (3, None), (6, None), (30, None), (9, 1.5)):
        array = rng.random(3000).astype(dtype)
        call = {"variant": rung.variant, "device": device}
        call |= {"weights": np.full(2 * radius + 1, weights)} if weights else {"radius": radius}
        clean = gpuopt.stencil1d(array, **call)
        for place in (0, 1, 255, 256, 1500, 2999):
            for value in (1e17, np.nan, np.inf, -np.inf):
                spoilt = array.copy()
                spoilt[place] = value
                got = gpuopt.stencil1d(spoilt, **call)
                far = np.abs(np.arange(3000) - place) > radius
                assert got[far].tobytes() == clean[far].tobytes()
                if np.isnan(value):
                    assert np.isnan(got[~far]).all()


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_large_arrays_of_every_rung(device, rung, dtype, rng):
    n = 5000 if device == "sim" else 2**24 + 5
    array = draw(rng, dtype, n)
    got = gpuopt.stencil1d(array, variant=rung.variant, device=device)
    sums = sum(
        np.pad(array.astype(np.float64 if dtype == "float32" else np.int32), 3)[k : k + n]
        for k in range(7)
    )
    if dtype == "int32":
        assert np.array_equal(got, sums)
    else:
        assert (np.abs(got - sums) <= 8 * 2.0**-24 * 7 * np.abs(array).max()).all()
    again = gpuopt.stencil1d(array.copy(), variant=rung.variant, device=device)
    assert again.tobytes() == got.tobytes()


@pytest.mark.parametrize("device", kinds())
def test_layouts_and_out(device, rng):
    for dtype in DTYPES:
        base = rng.integers(-1000, 1000, 700).astype(dtype)
        read_only = base.copy()
        read_only.flags.writeable = False
        for array in (base[::-1], base[::3], base.astype(np.dtype(dtype).newbyteorder()), read_only,
                      base.tolist(), np.broadcast_to(base[5], 90)):  # fmt: skip
            plain = np.array(array)
            plain = plain.astype(plain.dtype.newbyteorder("="))
            got = gpuopt.stencil1d(array, 2, device=device)
            want = windows(plain, 2, "constant", 0).sum(1, dtype=plain.dtype)
            assert got.dtype == plain.dtype and np.array_equal(got, want)
        want = gpuopt.stencil1d(base, device=device)
        out = np.empty_like(base)
        assert gpuopt.stencil1d(base, out=out, device=device) is out
        assert np.array_equal(out, want)
        spaced = np.empty(1400, np.float64)[::-2]
        gpuopt.stencil1d(base, out=spaced, device=device)
        assert np.array_equal(spaced, want)
        buffer = np.concatenate([base, base[:9]])
        for array, out in ((buffer[:700], buffer[9:]), (buffer[9:], buffer[:700]),
                           (buffer[:700], buffer[:700])):  # fmt: skip
            kept = buffer.copy()
            want = gpuopt.stencil1d(array.copy(), device=device)
            gpuopt.stencil1d(array, out=out, device=device)
            assert np.array_equal(out, want)
            buffer[...] = kept


@pytest.mark.parametrize("device", kinds())
def test_empty_and_valid(device):
    for dtype in DTYPES:
        for mode in MODES:
            got = gpuopt.stencil1d(np.empty(0, dtype), mode=mode, device=device)
            assert got.shape == (0,) and got.dtype == dtype
            for shape in ((0, 5), (5, 0), (2, 0, 3)):
                got = gpuopt.stencil1d(np.empty(shape, dtype), 2, mode=mode, device=device)
                columns = max(0, shape[-1] - 4) if mode == "valid" else shape[-1]
                assert got.shape == (*shape[:-1], columns) and got.dtype == dtype
        for n in range(12):
            got = gpuopt.stencil1d(np.ones(n, dtype), mode="valid", device=device)
            assert got.tolist() == [7] * max(0, n - 6)


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in KINDS if kind == "cuda"])
def test_historical_runs_only_when_named(device):
    array = np.ones(10_000, np.float32)
    for block in (32, 256, 1024):
        gpuopt.stencil1d(array, variant="2-historical", block=block, device=device)
    got = gpuopt.stencil1d(array, variant=2, device=device)
    assert got[3:-3].tolist() == [7] * 9994
    assert not any(rung.best for rung in gpuopt.rungs(FAMILY) if rung.historical)


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in KINDS if kind == "sim"])
def test_the_race_detector_finds_the_missing_barrier(device):
    array = np.ones(1000, np.float32)
    with pytest.raises(gpuopt.SimError, match="race in shared memory"):
        gpuopt.stencil1d(array, variant="2-historical", device=device)
    assert gpuopt.stencil1d(array, variant=2, device=device)[3:-3].tolist() == [7] * 994


def test_wrong_arguments():
    good, out = np.zeros(9), np.zeros(9)
    for error, match, arguments in (
        (ValueError, "a: must have at least 1 dimension", {"a": 1.0}),
        (ValueError, "axis 1 is out of bounds", {"axis": 1}),
        (IndexError, "axis -3 is out of bounds", {"a": np.zeros((2, 2)), "axis": -3}),
        (TypeError, "axis: must be an integer", {"axis": 0.5}),
        (ValueError, r"out: has shape", {"a": np.zeros((2, 9)), "out": out}),
        (TypeError, "a: dtype", {"a": np.zeros(3, object)}),
        (TypeError, "use int32", {"a": np.zeros((3, 2), object), "axis": 0}),
        (TypeError, "a: dtype", {"a": np.zeros(3, "m8[s]")}),
        (TypeError, "a: masked", {"a": np.ma.zeros(3)}),
        (ValueError, "radius: must be from 0", {"radius": -1}),
            (ValueError, "radius: must be from 0", {"radius": 2**31}),
            (ValueError, "radius: must be from 0", {"radius": 2**64 + 1}),
            (ValueError, "cval: must be in", {"cval": 10**400}),
            (TypeError, "axis: must be an integer", {"axis": True}),
        (TypeError, "radius: must be an integer", {"radius": 1.5}),
        (ValueError, "weights: .*one or more", {"weights": []}),
        (ValueError, "radius: is 2, but 4 weights", {"radius": 2, "weights": [1, 2, 3, 4]}),
        (ValueError, r"radius: must be .* pair", {"radius": (1, 2, 3)}),
        (ValueError, "radius: must be from 0", {"radius": (1, -2)}),
        (ValueError, "origin: must be from -3 to 3", {"origin": 4}),
        (ValueError, "origin: must be from -1 to 0", {"weights": [1, 2], "origin": 1}),
        (TypeError, "origin: must be an integer", {"origin": 0.5}),
        (ValueError, "origin: .*valid", {"origin": 1, "mode": "valid"}),
        (ValueError, r"weights: .*their shape is \(1, 3\)", {"weights": [[1, 2, 3]]}),
        (TypeError, "weights: must be real", {"weights": [1j]}),
        (ValueError, "radius: is 2, but 3 weights", {"radius": 2, "weights": [1, 2, 3]}),
        (ValueError, "mode: 'circular'", {"mode": "circular"}),
        (TypeError, "mode", {"mode": 1}),
        (TypeError, "cval", {"cval": "0"}),
        (ValueError, "cval", {"a": np.zeros(3, int), "cval": np.nan}),
        (ValueError, "weights", {"a": np.zeros(3, int), "weights": [np.inf]}),
        (ValueError, r"out: has shape", {"out": np.zeros(8)}),
        (TypeError, "out: cannot cast", {"out": np.zeros(9, int)}),
        (ValueError, "variant: 6 is not a rung of stencil1d", {"variant": 6}),
        (ValueError, "device", {"device": "tpu"}),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            gpuopt.stencil1d(**{"a": good, **arguments})


def test_cpu_bits_do_not_depend_on_the_threads():
    code = """
        import numpy as np, gpuopt
        a = np.random.default_rng(1).standard_normal(300_001).astype(np.float32)
        w = np.random.default_rng(2).standard_normal(31)
        one = gpuopt.stencil1d(a, weights=w, variant="serial")
        for variant in ("openmp", "simd"):
            assert one.tobytes() == gpuopt.stencil1d(a, weights=w, variant=variant).tobytes()
        print(hash(one.tobytes()))
    """
    outputs = {run_python(code, OMP_NUM_THREADS=threads, PYTHONHASHSEED="0").stdout
               for threads in ("1", "2", "5")}  # fmt: skip
    assert len(outputs) == 1


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_weights_beyond_a_short_row(dtype, rng):
    """They meet zeros only, and are not read; but one that is not finite counts, as in SciPy."""
    ndimage = pytest.importorskip("scipy.ndimage")
    for shape, radius in (((1,), 1), ((4, 1), 7), ((5, 3), 2), ((5, 3), 90), ((3, 8), 7)):
        a = np.round(rng.standard_normal(shape) * 50).astype(dtype)
        for weights in (None, rng.integers(-3, 4, 2 * radius + 1), rng.random(2 * radius + 1)):
            taps = np.ones(2 * radius + 1) if weights is None else np.asarray(weights, float)
            for cval in (0, 2):
                want = ndimage.correlate1d(a.astype(float), taps, mode="constant", cval=cval)
                bound = (2 * radius + 2) * 2**-23 * abs(want).max() + (dtype[0] == "i")
                for _ in range(2):
                    got = gpuopt.stencil1d(a, radius, weights=weights, cval=cval, device="cpu")
                    assert got.dtype == dtype and (abs(got - want) <= bound).all()
    weights = np.ones(9)
    weights[0] = np.nan
    for _ in range(2):
        assert np.isnan(gpuopt.stencil1d(np.ones((3, 2)), weights=weights, device="cpu")).all()


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("mode", MODES)
def test_rows_shorter_than_the_window(device, mode, rng):
    """Weights that meet the same input count once each; infinite inputs do not hide that."""
    call = {"mode": mode, "cval": 2, "device": device}
    rung = rungs_of(device, family=FAMILY)[-1]
    for n, radius in ((1, 1), (2, 7), (3, 1), (5, 90), (8, 20), (31, 15), (48, 24), (49, 60)):
        for dtype in DTYPES:
            array = draw(rng, dtype, (60, n))
            for given in (np.ones(2 * radius + 1, int), draw(rng, dtype, 2 * radius + 1)):
                got = gpuopt.stencil1d(array, weights=given, **call)
                check(rung, got, array, given, mode, 2)
            got = gpuopt.stencil1d(array, radius, **call)
            check(rung, got, array, np.ones(2 * radius + 1, int), mode, 2)
    array = np.ones((40, 3))
    array[7, 1] = np.inf  # twice, by weights whose sum is positive: inf - inf
    got = gpuopt.stencil1d(array, weights=[2.0, 0, 0, -1, 0, 0, 0.5], mode="wrap", device=device)
    with np.errstate(invalid="ignore"):
        want = windows(array, 3, "wrap", 0) @ np.array([2.0, 0, 0, -1, 0, 0, 0.5])
    assert np.array_equal(got, want, equal_nan=True)


MANY = ((1, 3, 1, "float32"), (2, 7, -2, "int64"), (4, 3, 0, "float32"), (13, 6, 0, "int8"),
        (31, 33, 16, "float64"), (48, 91, -40, "int32"), (63, 9, 3, "float32"),
        (200, 15, -7, "float16"))  # fmt: skip


@pytest.mark.parametrize("turn, mode", list(enumerate(MODES)))
def test_many_short_rows(turn, mode, rng):
    """Enough of them that tiles hold whole rows; some with gaps, some elements not finite."""
    for n, size, origin, dtype in MANY[turn % 3 :: 3]:
        if mode == "valid" and size > n:
            continue
        gaps = n % 4 == 0
        host = draw(rng, "int32", (345_000 // (n + size - 1), n << gaps))[:, :: 1 + gaps] >> 24
        host = host.astype(dtype)
        if dtype[0] == "f":
            host[len(host) // 2, n // 2], host[-1, -1] = np.inf, np.nan
        how = {"mode": mode} if mode == "valid" else {"mode": mode, "cval": 2, "origin": origin}
        weights, radius = rng.integers(-3, 4, size), (size // 2, (size - 1) // 2)
        how |= {"weights": weights} if size % 2 else {"radius": radius}
        got, want = (gpuopt.stencil1d(host, device=each, **how) for each in ("sim", "cpu"))
        assert np.array_equal(got, want, equal_nan=dtype[0] == "f"), (n, size, dtype)


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("mode", MODES)
def test_origins_and_even_windows_as_in_scipy(device, mode, rng):
    ndimage = pytest.importorskip("scipy.ndimage")
    rungs = rungs_of(device, family=FAMILY)
    for turn in range(24):
        shape = tuple(int(n) for n in rng.integers(1, [[3000], [20, 90]][turn % 2]))
        size, axis = int(rng.integers(1, rng.choice([4, 12, 130]))), int(rng.integers(len(shape)))
        before, after = size // 2, (size - 1) // 2
        origin = 0 if mode == "valid" else int(rng.integers(-before, after + 1))
        array = rng.integers(-50, 50, shape).astype(DTYPES[turn % 4])
        weights = rng.integers(-4, 5, size)
        call = {"mode": mode, "cval": 3, "axis": axis, "origin": origin, "device": device}
        call["variant"] = rungs[turn % len(rungs)].variant if turn < 16 else None
        for taps, window in ((weights, {"weights": weights}),
                             (np.ones(size), {"radius": (before, after)})):  # fmt: skip
            moved = np.moveaxis(array, axis, -1).astype(float)
            scipys = "nearest" if mode == "valid" else mode
            want = ndimage.correlate1d(moved, taps, mode=scipys, cval=3, origin=origin)
            if mode == "valid":
                want = want[..., before : before + max(0, moved.shape[-1] - size + 1)]
            got = gpuopt.stencil1d(array, **window, **call)
            assert np.array_equal(np.moveaxis(got, axis, -1), want), (shape, size, call)
    boxed = gpuopt.stencil1d(np.arange(9.0), (2, 1), mode="reflect", origin=-1, device=device) / 4
    want = ndimage.uniform_filter1d(np.arange(9.0), 4, mode="reflect", origin=-1)
    assert mode == "valid" or np.allclose(boxed, want, rtol=1e-15)
