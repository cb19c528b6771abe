"""The reduction on every rung of every device, against NumPy, math.fsum and exact integers.

Bounds, with u the unit roundoff of the result's dtype:

* integers and bool: exact, wrapped as the result's dtype wraps;
* the cpu's float32 sum: within 1 ulp of math.fsum; a correctly rounded sum where float64 holds it;
* sums in the elements' own dtype: k * u * sum(abs(x)), k the most additions that an element goes
through; * products: (k + 1) * u relative, k the number of factors.
"""

import math
import os
import timeit

import numpy as np
import pytest
from conftest import (
    COMPLEX,
    DTYPES,
    FLOATS,
    INTEGERS,
    UFUNCS,
    blocks_of,
    compiled_for,
    device_rung_signatures,
    device_rungs,
    kinds,
    largest,
    on,
    random_items,
    run_python,
    rungs_of,
    side_by_side,
)

import gpuopt
from gpuopt import _core

SIZES = [1, 2, 3, 31, 32, 33, 127, 128, 129, 1000, 2049, 4099]
UNIT = {np.dtype(code): float(np.finfo(code).eps) / 2 for code in "efdFD"}


def exact_integer(op, items, result):
    """Return the reduction of integers or bools, in Python's integers, wrapped to `result`."""
    values = items.tolist()
    if op == "sum" and items.dtype.itemsize == 8 and items.size > 10_000:
        low = (items & 0xFFFFFFFF).sum(dtype=np.uint64)  # neither half can overflow
        value = (int((items >> 32).sum()) << 32) + int(low)
    elif op == "sum" and items.size > 10_000:
        value = int(items.sum(dtype=np.int64))
    elif op in ("min", "max"):
        value = int(UFUNCS[op].reduce(items))
    elif op == "sum":
        value = sum(values)
    elif op == "prod":
        value = 1
        for each in values:
            value = value * each % 2**64
    else:
        value = values[0]
        for each in values[1:]:
            value = {
                "and": value & each,
                "or": value | each,
                "xor": value ^ each,
            }[op]
    if result.kind == "b":
        return np.bool_(value)
    bits = 8 * result.itemsize
    value %= 2**bits
    return result.type(value - 2**bits if result.kind == "i" and value >> (bits - 1) else value)


def exact_sum(items):
    """Return the sum of floats or complex, rounded once to float64."""
    if items.dtype.kind == "c":
        return complex(math.fsum(items.real.tolist()), math.fsum(items.imag.tolist()))
    return math.fsum(items.tolist())


def additions(device, rung, n):
    """Return the most additions that an element goes through.

    On the cpu: 16 in a leaf, at most 8 and 4 in the trees of a chunk, then the tree of the
    chunks. On rungs 1 to 6: passes of log2(block) each. On rung 7, whose GPU holds 1,024 threads
    or more on every multiprocessor: the loop, the tree of a block, and both again for the
    partial results.
    """
    depth = math.ceil(math.log2(n + 1))
    if rung.host:
        return depth + 28
    if rung.items_per_thread:
        return depth + 11
    name = "sim:h200" if device == "sim" else f"{device}:0"
    (multiprocessors,) = {each.multiprocessors for each in gpuopt.devices() if each.name == name}
    return 64 + n // (2 * 1024 * max(1, multiprocessors))


def check_float(device, rung, op, items, got):
    """Check a float's or a complex's reduction against its bound."""
    n, wide = items.size, items.astype(np.complex128 if items.dtype.kind == "c" else np.float64)
    unit = UNIT[got.dtype]
    if op == "sum":
        exact = exact_sum(items)
        bound = additions(device, rung, n) * unit * float(np.abs(wide.astype(np.complex128)).sum())
        if rung.host and got.dtype != np.dtype(np.float64) and got.dtype != np.dtype(np.complex128):
            # accumulated in float64, rounded once
            bound = unit * abs(exact) * 1.0001 + 64 * 2.0**-53 * float(
                np.abs(wide.astype(np.complex128)).sum()
            )
        assert abs(complex(got) - exact) <= bound, (n, got, exact, bound)
    elif op == "prod":
        exact = np.multiply.reduce(
            wide.astype(np.clongdouble if wide.dtype.kind == "c" else np.longdouble)
        )
        factor = 3 if items.dtype.kind == "c" else 1
        bound = factor * (n + 2) * (2.0**-53 if rung.host else unit) + factor * unit
        tiny = float(np.finfo(got.dtype).smallest_subnormal)
        assert abs(got - exact) <= bound * abs(exact) + tiny, (n, got, exact, bound)
    else:
        assert got == UFUNCS[op].reduce(items), (n, got)


def factors(rng, dtype, n):
    """Return n factors whose product neither overflows nor vanishes."""
    if dtype.kind == "c":
        return np.exp(1j * rng.uniform(0, 7, n)).astype(dtype)
    return (rng.choice([-1.0, 1.0], n) * np.exp2(rng.uniform(-0.1, 0.1, n))).astype(dtype)


@pytest.mark.parametrize("device, rung, op, items, accumulator", device_rung_signatures())
def test_every_signature_size_and_block(device, rung, op, items, accumulator, rng):
    """Every registered kernel and block size, at sizes around warps and blocks."""
    source, result = np.dtype(items), np.dtype(accumulator)
    if rung.host and source.kind in "fc":
        result = source  # accumulated wider, returned as asked
    for n in SIZES:
        array = random_items(rng, source, largest(device, n))
        if op == "prod" and source.kind in "iu":
            array |= 1  # odd factors never wrap to zero
        if op == "prod" and source.kind in "fc":
            array = factors(rng, source, array.size)
        if op == "and":
            array |= array.dtype.type(1)
        for block in blocks_of(rung):
            got = gpuopt.reduce(
                array, op, variant=rung.variant, dtype=result, block=block, device=device
            )
            assert got.dtype == result
            if result.kind in "biu":
                want = exact_integer(op, array, result)
                assert got == want and type(got) is type(want), (n, block, got, want)
            else:
                wide = array.astype(result)
                check_float(device, rung, op, wide, got)


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("n", [2**20 - 1, 2**20, 2**20 + 1])
def test_a_million(device, rung, dtype, n, rng):
    """Sizes of several passes on a GPU and several chunks on a cpu."""
    array = random_items(rng, dtype, largest(device, n))
    for op in ("sum", "min", "max"):
        got = gpuopt.reduce(array, op, variant=rung.variant, device=device)
        if array.dtype.kind == "i":
            assert got == exact_integer(op, array, got.dtype)
        else:
            check_float(device, rung, op, array, got)


def fixed_point(rng, dtype, n):
    """Return random multiples of 2^-10 below 16, and their exact sum."""
    whole = rng.integers(-(2**14), 2**14, n, np.int32)
    return np.multiply(whole, 2.0**-10, dtype=np.dtype(dtype)), int(whole.sum(dtype=np.int64))


@pytest.mark.parametrize("device", [on("sim", "sim:m2090"), on("cuda", "cuda:0")])
@pytest.mark.parametrize("variant", [11, 13, None])
@pytest.mark.parametrize("rounds", [1, 11.9, 12.1, 13, 41])
def test_several_rounds_per_block(device, variant, rounds, rng):
    """Sizes around 12 rounds of 64 KiB per block (two blocks per multiprocessor), and far above."""
    (multiprocessors,) = {each.multiprocessors for each in gpuopt.devices() if each.name == device}
    n = int(2 * multiprocessors * rounds * 16_384) + 777
    array, whole = fixed_point(rng, "float32", n + 1)
    for items, want in ((array, whole), (array[1:], whole - int(array[0] * 2**10))):
        got = gpuopt.reduce(items, variant=variant, dtype=np.float64, device=device)
        assert got == want * 2.0**-10


def test_default_rung_depends_on_the_size():
    """The default is rung 11 for short arrays and rung 13 for long ones."""
    for rounds, kernel in ((11.9, "reduce_11_"), (12.1, "reduce_13_")):
        array = np.zeros(int(2 * 16 * rounds * 16_384), np.float32)
        rung = _core.Workbench("reduce", array, device="sim:m2090").rung()
        assert rung == ("single-pass" if kernel == "reduce_11_" else "dynamic")
        (launch,) = gpuopt.profile(gpuopt.reduce, array, device="sim:m2090").launches
        assert launch.kernel.startswith(kernel)
    (launch,) = gpuopt.profile(gpuopt.reduce, array[:1000], variant=13, device="sim").launches
    assert launch.kernel.startswith("reduce_13_")


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_2_to_the_25(device, rung, dtype, rng):
    """The size that the benchmarks use."""
    n = largest(device, 2**25)
    if dtype == "int32":
        array = rng.integers(-(2**31), 2**31, n, np.int32)
        whole = int(array.sum(dtype=np.int64))
        assert gpuopt.reduce(array, variant=rung.variant, device=device) == whole
        wrapped = (whole + 2**31) % 2**32 - 2**31
        got = gpuopt.reduce(array, variant=rung.variant, dtype=np.int32, device=device)
        assert got == wrapped and type(got) is np.int32
        return
    array, whole = fixed_point(rng, dtype, n)
    got = gpuopt.reduce(array, variant=rung.variant, device=device)
    if rung.host or dtype == "float64":
        assert got == np.dtype(dtype).type(whole * 2.0**-10)  # float64 holds every partial sum
    else:
        bound = additions(device, rung, n) * 2.0**-24 * float(np.abs(array).sum(dtype=np.float64))
        assert abs(float(got) - whole * 2.0**-10) <= bound
        wide = gpuopt.reduce(array, variant=rung.variant, dtype=np.float64, device=device)
        assert wide == whole * 2.0**-10


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("segments", [3, 5, 7])
def test_sizes_that_are_no_power_of_two(device, rung, segments, rng):
    """An odd number of segments (2^22 elements on the cpu) and a remainder."""
    array = rng.integers(-(2**31), 2**31, largest(device, segments * 2**22 - 2**21 + 3), np.int32)
    call = {"variant": rung.variant, "device": device}
    assert gpuopt.reduce(array, **call) == int(array.sum(dtype=np.int64))
    assert gpuopt.reduce(array, "xor", **call) == np.bitwise_xor.reduce(array)


@pytest.mark.parametrize("device, rung", device_rungs())
def test_a_single_item_counts_at_every_place(device, rung):
    """Elements at the edges of warps, blocks, leaves and chunks count exactly once."""
    for n in (1, 33, 257, 2**14 + 1, 2**16 + 3):
        n = largest(device, n)
        places = {0, 1, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 2**14 - 1, 2**14, n - 2, n - 1}
        for place in sorted(place for place in places if 0 <= place < n):
            array = np.full(n, -1, np.int64)
            array[place] = 1 << 40
            got = gpuopt.reduce(array, variant=rung.variant, device=device)
            assert got == (1 << 40) - (n - 1), (n, place)
            assert gpuopt.reduce(array, "max", variant=rung.variant, device=device) == 1 << 40


@pytest.mark.parametrize("device, rung", device_rungs())
def test_more_than_2_to_the_32_items(device, rung):
    """Indices are 64-bit."""
    if device == "sim":
        pytest.skip("a simulated GPU would take hours")
    n = 2**32 + 2**14 + 3
    try:
        array = np.zeros(n, bool)
    except MemoryError:
        pytest.skip("4 GiB of memory cannot be reserved here")
    array[[0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, n - 1]] = True
    if rung.host and rung.name == "serial":
        array = array[2**31 - 1 :]  # one thread: half will do
        assert gpuopt.reduce(array, variant=rung.variant, device=device) == 5
        return
    assert gpuopt.reduce(array, variant=rung.variant, device=device) == 6


# --- floats


def test_cpu_float32_sum_is_within_one_ulp_of_fsum(rng):
    for n in (2, 3, 17, 100, 999, 4097, 70_001, 2**20 + 1):
        for array in (
            rng.standard_normal(n),
            rng.random(n),
            rng.lognormal(0, 8, n),
            np.full(n, 0.1),
            np.ldexp(rng.standard_normal(n), rng.integers(-60, 60, n)),
        ):
            array = array.astype(np.float32)
            exact = math.fsum(array.tolist())
            for variant in ("serial", "openmp", "simd"):
                got = gpuopt.reduce(array, variant=variant, device="cpu")
                assert type(got) is np.float32
                assert abs(float(got) - exact) <= np.spacing(np.float32(abs(exact))), (
                    n,
                    got,
                    exact,
                )


@pytest.mark.parametrize("variant", ["serial", "openmp", "simd"])
def test_cpu_float64_sum_is_no_less_exact_than_numpys(variant, rng):
    ours, theirs = [], []
    for trial in range(150):
        n = [100, 1000, 3000, 20_000][trial % 4]
        array = rng.standard_normal(n) if trial % 3 else rng.random(n)
        exact = math.fsum(array.tolist())
        scale = 2.0**-53 * float(np.abs(array).sum())
        ours.append((float(gpuopt.reduce(array, variant=variant, device="cpu")) - exact) / scale)
        theirs.append((float(np.sum(array)) - exact) / scale)
        assert abs(ours[-1]) <= 16 + math.log2(n)
    root_mean_square = [float(np.sqrt(np.mean(np.square(each)))) for each in (ours, theirs)]
    assert root_mean_square[0] <= 1.1 * root_mean_square[1]


@pytest.mark.parametrize("device, rung", device_rungs())
def test_ill_conditioned_float64_sum(device, rung, rng):
    """Elements over 30 decades that cancel."""
    for n in (50, 1000, 2**14 + 1):
        half = np.ldexp(rng.standard_normal(n), rng.integers(-50, 50, n))
        array = np.concatenate([half, -half, rng.standard_normal(n)])[: largest(device, 3 * n)]
        rng.shuffle(array)
        exact = math.fsum(array.tolist())
        got = float(gpuopt.reduce(array, variant=rung.variant, device=device))
        bound = additions(device, rung, array.size) * 2.0**-53 * float(np.abs(array).sum())
        assert abs(got - exact) <= bound


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_min_and_max_of_special_values(device, rung, dtype, rng):
    if dtype not in {items for op, items, _ in rung.signatures if op == "min"}:
        pytest.skip(f"rung {rung.name} takes no {dtype}")
    inf, nan = np.inf, np.nan
    tiny = float(np.finfo(dtype).smallest_subnormal)
    for n in (1, 2, 31, 33, 300, 5000):
        n = largest(device, n)
        base = random_items(rng, dtype, n)
        for place in {0, n // 2, n - 1}:
            for value in (nan, -nan, inf, -inf, tiny, -tiny):
                for array in (base.copy(), np.full(n, inf, dtype), np.full(n, -inf, dtype)):
                    array[place] = value
                    for op, ufunc in (("min", np.minimum), ("max", np.maximum)):
                        got = gpuopt.reduce(array, op, variant=rung.variant, device=device)
                        want = ufunc.reduce(array)
                        assert type(got) is type(want)
                        assert np.array_equal(got, want, equal_nan=True), (n, place, value, op)
        subnormal = np.full(n, 3 * tiny, dtype)
        subnormal[n // 2] = tiny
        assert gpuopt.reduce(subnormal, "min", variant=rung.variant, device=device) == tiny
        assert gpuopt.reduce(-subnormal, "max", variant=rung.variant, device=device) == -tiny
        zeros = np.zeros(n, dtype)
        zeros[n // 2] = -0.0
        for op in ("min", "max"):
            got = gpuopt.reduce(zeros, op, variant=rung.variant, device=device)
            assert got == 0 and not np.isnan(got)
        negative = gpuopt.reduce(
            np.full(n, -0.0, dtype), "max", variant=rung.variant, device=device
        )
        assert negative == 0 and np.signbit(negative)


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sum_and_prod_of_special_values(device, rung, dtype):
    for n in (2, 33, 1000):
        for extra, total in (([np.inf], np.inf), ([-np.inf], -np.inf), ([np.nan], np.nan),
                             ([np.inf, -np.inf], np.nan)):  # fmt: skip
            array = np.ones(n, dtype)
            array[-len(extra) :] = extra
            for op in ("sum", "prod"):
                got = gpuopt.reduce(array, op, variant=rung.variant, device=device)
                want = total if op == "sum" or len(extra) == 1 else -np.inf
                assert np.array_equal(got, want, equal_nan=True), (n, extra, op)
        tiny = np.finfo(dtype).smallest_subnormal
        got = gpuopt.reduce(np.full(n, tiny), variant=rung.variant, device=device)
        assert got == n * tiny  # no flush to zero
        signs = np.full(n, -1, dtype)
        got = gpuopt.reduce(signs, "prod", variant=rung.variant, device=device)
        assert got == (-1) ** n


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_cpu_float16_every_value(op):
    """All 65,536 bit patterns are read correctly, alone and beside the identity."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    other = np.float16({"sum": 0, "prod": 1, "min": np.inf, "max": -np.inf}[op])
    pairs = np.stack([every, np.full_like(every, other)], 1)
    got = np.array([gpuopt.reduce(pair, op, device="cpu") for pair in pairs])
    assert got.dtype == np.float16
    assert np.array_equal(got, every, equal_nan=True)


# --- integers, bool, dtypes


@pytest.mark.parametrize("dtype", [each for each in DTYPES if each.kind in "biu"], ids=str)
def test_sums_at_the_limits(dtype):
    """The cpu accumulates a chunk of 2^14 small integers in narrow lanes."""
    for value in (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max):
        for n in (1, 2**14 - 1, 2**14, 2**14 + 1, 100_003):
            array = np.full(n, value, dtype)
            want = exact_integer("sum", array, np.dtype("u8" if dtype.kind == "u" else "i8"))
            assert gpuopt.reduce(array, device="cpu") == want
            assert gpuopt.reduce(array, variant="serial", device="cpu") == want


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_as_in_numpy(device, rung, dtype, rng):
    limits = np.iinfo(dtype)
    for array in (
        np.full(1001, limits.max, dtype),
        np.full(1001, limits.min, dtype),
        rng.integers(limits.min, limits.max, 4097, dtype, endpoint=True) | 1,
    ):
        for op in ("sum", "prod"):
            for result in {np.dtype(dtype), np.dtype(np.int64)}:
                got = gpuopt.reduce(array, op, variant=rung.variant, dtype=result, device=device)
                assert type(got) is result.type
                assert got == exact_integer(op, array, result), (op, result)


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("op", list(UFUNCS))
def test_bool_bytes_that_are_neither_0_nor_1(device, op):
    rung = rungs_of(device)[0]
    for bytes_ in ([2, 0], [2], [255, 128, 2], [0, 0], [2, 1], [3, 4, 5, 0, 9] * 20):
        array = np.array(bytes_, np.uint8).view(bool)
        truth = [bool(each) for each in bytes_]
        want = UFUNCS[op].reduce(np.array(truth))
        for view in (array, np.repeat(array, 2).view(np.uint8)[::2].view(bool)):
            got = gpuopt.reduce(view, op, variant=rung.variant, device=device)
            assert type(got) is type(want) and got == want, (bytes_, op)
            assert got.tobytes() == want.tobytes()  # a true that is 1
            wide = gpuopt.reduce(view, op, dtype=np.float64, device="cpu") if op == "sum" else want
            assert wide == want


@pytest.mark.parametrize("op", list(UFUNCS))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("result", [None, *DTYPES], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_cpu_result_type_and_value_are_numpys(op, dtype, result, rng):
    """Every op, dtype and dtype=, with values that wrap: the same type and value, or error."""
    if op in ("min", "max") and np.dtype(result or dtype).kind == "c":
        with pytest.raises(TypeError, match="op='m"):
            gpuopt.reduce(np.ones(3, dtype), op, dtype=result, device="cpu")
        return
    for n in (1, 2, 7, 40):
        array = random_items(rng, dtype, n)
        if np.dtype(result or dtype).kind in "iu" and dtype.kind in "fc":
            array *= 100  # so that something is left of it
        try:
            want = UFUNCS[op].reduce(array, dtype=result)
        except TypeError:
            with pytest.raises(TypeError):
                gpuopt.reduce(array, op, dtype=result, device="cpu")
            continue
        got = gpuopt.reduce(array, op, dtype=result, device="cpu")
        assert type(got) is type(want)
        if want.dtype.kind in "biu" or op in ("min", "max"):
            assert got == want
        else:
            tolerance = {"e": 2e-2, "f": 1e-5, "F": 1e-5}.get(want.dtype.char, 1e-13)
            finite = np.isfinite(want)
            assert not finite or abs(got - want) <= tolerance * max(
                abs(complex(want)), float(np.abs(array).sum())
            )


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_cpu_large_arrays_of_every_dtype(dtype, rng):
    """Sizes of several chunks and threads, for the dtypes of the cpu only."""
    for n in (2**14 + 1, 2**16 + 77, 300_001):
        array = random_items(rng, dtype, n)
        for variant in ("serial", "openmp", "simd"):
            got = gpuopt.reduce(array, variant=variant, device="cpu")
            if dtype.kind in "iu":
                assert got == exact_integer("sum", array, got.dtype)
                assert gpuopt.reduce(array, "min", device="cpu") == array.min()
                assert gpuopt.reduce(array, "xor", device="cpu") == np.bitwise_xor.reduce(array)
            else:
                (rung,) = (rung for rung in rungs_of("cpu") if rung.name == variant)
                check_float("cpu", rung, "sum", array, got)


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("op", list(UFUNCS))
def test_empty_array_returns_identity(device, rung, op):
    for dtype in (bool, np.int32, np.int64, np.float32, np.float64):
        for shape in (0, (0, 3), (2, 0, 5)):
            array = np.empty(shape, dtype)
            if op in ("and", "or", "xor") and array.dtype.kind == "f":
                continue
            call = {"variant": rung.variant, "device": device}
            if op in ("min", "max"):
                with pytest.raises(ValueError, match="zero-size array"):
                    gpuopt.reduce(array, op, **call)
            else:
                got, want = gpuopt.reduce(array, op, **call), UFUNCS[op].reduce(array.ravel())
                assert got == want and type(got) is type(want)
            got = gpuopt.reduce(array, op, initial=1, **call)
            want = UFUNCS[op].reduce(array.ravel(), initial=1)
            assert got == want and type(got) is type(want)
            with pytest.raises(ValueError, match="zero-size array"):
                gpuopt.reduce(array, op, initial=None, **call)


# --- the same bits


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bitwise_the_same_from_run_to_run(device, rung, dtype, rng):
    array = random_items(rng, dtype, largest(device, 2**20 + 12_345))
    for op in ("sum", "prod"):
        first = gpuopt.reduce(array, op, variant=rung.variant, device=device)
        for _ in range(10):
            again = gpuopt.reduce(array.copy(), op, variant=rung.variant, device=device)
            assert again.tobytes() == first.tobytes()


THREADS_CODE = """
    import numpy as np, gpuopt
    rng = np.random.default_rng(7)
    for n in (1000, 2**16 + 5, 2**18 + 1, 2**20 - 1, 5_000_001):
        for dtype in (np.float16, np.float32, np.float64, np.complex128, np.int64):
            array = (rng.standard_normal(n) * 8).astype(dtype)
            for view in (array, array[::-1], np.repeat(array[: n // 2], 2)[::2]):
                total = gpuopt.reduce(view, device="cpu")
                serial = gpuopt.reduce(view, variant="serial", device="cpu")
                assert total.tobytes() == serial.tobytes(), (n, dtype)
                print(n, np.dtype(dtype), total.tobytes().hex())
"""


@pytest.mark.timeout(180)
def test_cpu_bits_do_not_depend_on_the_threads():
    """Serial and OpenMP with 1 to 5 threads give the same bits."""
    outputs = {
        threads: run_python(THREADS_CODE, OMP_NUM_THREADS=threads).stdout
        for threads in ("1", "2", "3", "5")
    }
    assert outputs["1"].count("\n") == 75
    assert len(set(outputs.values())) == 1


@pytest.mark.parametrize("n", [300_001, 2**22 + 1, 3 * 2**22 - 9, 5 * 2**22 + 1])
def test_cpu_bits_do_not_depend_on_the_layout(n, rng):
    """Strided, reversed, byte-swapped and contiguous arrays use the same tree."""
    array = rng.standard_normal(n)
    spaced = [np.repeat(array, step)[::step] for step in (2, 3, 4)]
    assert not any(view.flags.contiguous for view in spaced)
    for op in ("sum", "prod"):
        want = gpuopt.reduce(array, op, device="cpu").tobytes()
        for view in spaced:
            assert gpuopt.reduce(view, op, device="cpu").tobytes() == want
        assert gpuopt.reduce(array.astype(">f8"), op, device="cpu").tobytes() == want


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_boxes_on_the_cpu(dtype, rng):
    """A slice of a larger array gives the same bits as its copy."""
    wide = random_items(rng, dtype, 40 * 30 * 20 * 3).reshape(40, 30, 20, 3)
    line = random_items(rng, dtype, 300_001)
    ops = ["sum", "prod"]
    ops += ["min", "max"] if dtype.kind != "c" else []
    ops += ["xor", "and", "or"] if dtype.kind in "biu" else []
    boxes = [
        wide[3:-2, ::2, 1:-1, :2],
        wide[:, :, :, 1],
        wide[::-3, 5:, ::-1, ::-1],
        wide.reshape(40, 30, 60)[1:, 2:, 3:],
        wide[:1, :1, :1, ::2],
        np.lib.stride_tricks.sliding_window_view(line[:5000], 50),
        *(line[::step] for step in (2, 3, 7, -5)),
        line[:-1].reshape(1000, 300)[:, 7:-9],
    ]
    for box in boxes:
        turned = tuple(slice(None, None, -1 if step < 0 else None) for step in box.strides)
        order = np.argsort([-abs(step) for step in box.strides], kind="stable")
        copy = np.ascontiguousarray(box[turned].transpose(order))
        for op in ops:
            want = gpuopt.reduce(copy, op, device="cpu").tobytes()
            assert gpuopt.reduce(box, op, device="cpu").tobytes() == want, op
            assert gpuopt.reduce(box, op, variant="serial", device="cpu").tobytes() == want, op
    repeated = np.broadcast_to(wide[0, :, None, :, 0], (30, 4, 20))
    for op in ops:
        want = gpuopt.reduce(repeated, op, variant="serial", device="cpu").tobytes()
        assert gpuopt.reduce(repeated, op, device="cpu").tobytes() == want, op


# --- variants


@pytest.mark.parametrize("device, rung", device_rungs(historical=True))
def test_a_rung_by_number_and_by_name(device, rung):
    array = np.arange(1, 1001, dtype=np.int32)
    if rung.historical and device == "sim":
        return  # its race ends it: the next test
    by_name = gpuopt.reduce(array, variant=rung.name, device=device)
    assert type(by_name) is np.int64
    if rung.historical:
        return  # undefined: it ran, and that is all there is to say
    assert by_name == 500_500
    if rung.number is not None:
        assert gpuopt.reduce(array, variant=rung.number, device=device) == 500_500
        assert gpuopt.reduce(array, variant=np.int8(rung.number), device=device) == 500_500


@pytest.mark.parametrize("device, rung", device_rungs(historical=True))
def test_historical_runs_with_every_block(device, rung):
    if not rung.historical:
        pytest.skip("covered by the other tests")
    for n in (100, 1000, 5000):
        for block in blocks_of(rung):
            call = {"variant": rung.name, "block": block, "device": device}
            if device == "sim":
                with pytest.raises(gpuopt.SimError, match=r"race in shared memory.*reduce.cu:\d+"):
                    gpuopt.reduce(np.arange(n, dtype=np.float32), **call)
            else:
                gpuopt.reduce(np.arange(n, dtype=np.float32), **call)
    assert gpuopt.reduce(np.ones(100), variant=5, device=device) == 100


def test_every_rung_fits_the_shared_memory_of_turing(rng):
    """Rung 12's ring uses all 64 KiB of a T4's block."""
    assert gpuopt.reduce(np.ones(5, np.float32), variant=12, device="sim:t4") == 5
    items = rng.integers(-99, 99, 300_000)
    assert gpuopt.reduce(items, variant=12, device="sim:t4") == items.sum()
    listed = gpuopt.ladder("reduce", 4096, device="sim:t4")
    assert {row.rung.number for row in listed.rows} == set(range(1, 14))


@pytest.mark.parametrize("device", kinds())
def test_the_default_is_the_best_rung(device, rng):
    array = random_items(rng, np.float32, largest(device, 2**20 + 1))
    (best,) = (rung for rung in rungs_of(device, historical=True) if rung.best)
    assert not best.historical
    default = gpuopt.reduce(array, device=device)
    assert default.tobytes() == gpuopt.reduce(array, variant=best.name, device=device).tobytes()


# --- speed


def thousand_calls(rng, function, **options):
    """Return a function that sums 1,024 elements a thousand times."""
    array = rng.standard_normal(1024).astype(np.float32)
    return lambda: [function(array, **options) for _ in range(1000)]


NUMPY_BARS = [
    pytest.param(0.8, id="busy"),  # what a machine that does other things must show too
    pytest.param(1.2, marks=pytest.mark.speed, id="quiet"),
]


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="slows gpuopt alone")
@pytest.mark.parametrize("bar", NUMPY_BARS)
def test_a_short_call_against_numpys(rng, bar):
    """Whole calls on 1,024 elements beat numpy.sum by the bar's factor."""
    ours = thousand_calls(rng, gpuopt.reduce, device="cpu")
    side_by_side(ours, thousand_calls(rng, np.sum), bar, 15)


@pytest.mark.speed
def test_a_short_call_is_short(rng):
    """A call on 1,024 elements costs at most 2 us, the best of many rounds."""
    calls = thousand_calls(rng, gpuopt.reduce, device="cpu")
    assert min(timeit.repeat(calls, number=1, repeat=60)) <= 2e-6 * 1000


@pytest.mark.parametrize("multiprocessors", [1, 3])
def test_bulk_copies_on_the_simulated_gpu(multiprocessors, tmp_path, rng):
    """The PTX for compute_75 has no bulk copies: compile the kernels for sm_90."""
    few = tmp_path / "few.h"
    few.write_text("""#define REDUCE_SIGNATURES(SIGNATURE)                  \\
        SIGNATURE(sum, float32, float64) SIGNATURE(max, int32, int32) SIGNATURE(sum, bool, int64)
    """)
    ptx = compiled_for("compute_90", "reduce.cu", tmp_path, "-include", few)
    assert "cp.async.bulk.shared" in ptx.read_text()
    module = gpuopt.load_ptx(ptx, "sim")
    tickets, grid = np.zeros(1, np.uint32), 3 * multiprocessors
    for dtype, op, wide in (("float32", "sum", "float64"), ("int32", "max", "int32"),
                            ("bool", "sum", "int64")):  # fmt: skip
        kernel = module[f"reduce_12_{op}_{dtype}_{wide}"]
        for n in (1, 1000, 4096, 60_001, 300_003):
            array = random_items(rng, np.dtype(dtype), n + 3)
            for view in (array[:n], array[3 : n + 3]):
                partials, got = np.zeros(grid, wide), np.zeros(1, wide)
                launch = (grid, 256, view, partials, np.uint64(n), got, tickets)
                kernel(*launch, np.uint64(0), shared=4 << 14)
                want = UFUNCS[op].reduce(view, dtype=wide)
                assert got[0] == want if dtype != "float32" else abs(got[0] - want) < 1e-9, n
                assert tickets[0] == 0
                half = {"float64": "float32", "int64": "int32"}.get(wide)
                if half:
                    whole, got[0] = got[0], -1
                    kernel(*launch, np.uint64(1), shared=4 << 14)
                    assert got.view(half).tolist() == [
                        whole.astype(half),
                        np.array([-1], wide).view(half)[1],
                    ]
