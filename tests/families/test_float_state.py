"""Results do not depend on the caller's floating-point state, which stays as it is."""

import ctypes
import platform
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import run_python

import gpuopt

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="the state is set through glibc's fenv_t of x86-64",
)

FLUSH = 0x8040  # MXCSR: results that are subnormal become zero, and operands as well
UPWARD, DOWNWARD, TOWARD_ZERO = 0x800, 0x400, 0xC00  # fesetround's numbers on x86
STATES = {"flush": (FLUSH, 0), "up": (0, UPWARD), "down": (0, DOWNWARD), "zero": (0, TOWARD_ZERO)}
LIBM = ctypes.CDLL("libm.so.6") if pytestmark.args[0] is False else None


def read():
    """Return MXCSR without its sticky flags, and the x87 unit's control word."""
    environment = (ctypes.c_uint32 * 8)()
    LIBM.fegetenv(environment)
    return environment[7] & ~0x3F, environment[0] & 0xFFFF


@contextmanager
def state(name):
    flush, rounding = STATES[name]
    before, changed = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    LIBM.fegetenv(before)
    LIBM.fesetround(rounding)
    LIBM.fegetenv(changed)
    changed[7] |= flush
    LIBM.fesetenv(changed)
    try:
        yield
    finally:
        LIBM.fesetenv(before)


def small(rng, dtype, n):
    """Return numbers of all magnitudes that a dtype has, subnormal ones among them."""
    info = np.finfo(dtype)
    exponents = rng.uniform(info.minexp - info.nmant, 4, n)
    return (rng.uniform(0.5, 1, n) * 2.0**exponents).astype(dtype) * rng.choice([-1, 1], n).astype(
        dtype
    )


CALLS = {
    "sum": lambda x, **how: gpuopt.reduce(x, **how),
    "sum_dtype": lambda x, **how: gpuopt.reduce(x, dtype="float32", **how),
    "mean": lambda x, **how: gpuopt.reduce(x, "mean", **how),
    "initial": lambda x, **how: gpuopt.reduce(x, initial=1e-5, **how),
    "axis": lambda x, **how: gpuopt.reduce(x.reshape(-1, 50), axis=0, **how),
    "axis_mean": lambda x, **how: gpuopt.reduce(x.reshape(50, -1), "mean", axis=1, **how),
    "strided": lambda x, **how: gpuopt.reduce(x[::3], **how),
    "add": lambda x, **how: gpuopt.add(x, x[::-1].copy(), **how),
    "saxpy": lambda x, **how: gpuopt.saxpy(0.3, x, x[::-1].copy(), **how),
    "stencil": lambda x, **how: gpuopt.stencil1d(x, radius=2, **how),
    "matmul": lambda x, **how: gpuopt.matmul(
        x[:2500].reshape(50, 50), x[2500:5000].reshape(50, 50), **how
    ),
}


def bits(result):
    return np.asarray(result).tobytes()


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_results_are_the_same_in_any_state(device, call, name, rng):
    for dtype in ("float16", "float32", "float64"):
        if dtype == "float16" and call in ("add", "saxpy", "stencil", "matmul", "sum_dtype"):
            continue
        x = small(rng, dtype, 60_000 if device == "cpu" else 6_000)
        want = bits(CALLS[call](x, device=device))
        with state(name):
            before = read()
            got = bits(CALLS[call](x, device=device))
            after = read()
        assert got == want, dtype
        assert after == before, "the caller's state is as it was"


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("family", ["reduce", "add", "saxpy", "stencil1d", "matmul"])
def test_every_thread_of_the_cpu_computes_in_the_default_state(family, name, rng):
    """OpenMP's threads and the team's have the state of whoever was there when they started."""
    n = 512 if family == "matmul" else 3_000_000
    x = small(rng, np.float32, n * n if family == "matmul" else n)
    calls = {
        "reduce": lambda rung: gpuopt.reduce(x, variant=rung, device="cpu"),
        "add": lambda rung: gpuopt.add(x, x, variant=rung, device="cpu"),
        "saxpy": lambda rung: gpuopt.saxpy(0.3, x, x, variant=rung, device="cpu"),
        "stencil1d": lambda rung: gpuopt.stencil1d(x, radius=9, variant=rung, device="cpu"),
        "matmul": lambda rung: gpuopt.matmul(
            x.reshape(n, n), x.reshape(n, n), variant=rung, device="cpu"
        ),
    }
    for rung in ("openmp", "simd"):
        want = bits(calls[family](rung))
        with state(name):
            assert bits(calls[family](rung)) == want, rung


THREADS_START = """
import ctypes, numpy as np, gpuopt
libm = ctypes.CDLL("libm.so.6")
environment = (ctypes.c_uint32 * 8)()
x = np.full(4_000_000, 1e-40, np.float32)
libm.fegetenv(environment)
environment[7] |= 0x8040
libm.fesetenv(environment)
for rung in ("openmp", "simd"):
    assert gpuopt.add(x, x, variant=rung, device="cpu").view(np.uint32).min() > 0, rung
"""


def test_threads_that_start_while_the_state_is_another_do_not_keep_it():
    done = run_python(THREADS_START, GPUOPT_NUM_THREADS="4")
    assert done.returncode == 0, done.stderr


ARITHMETIC = """
.version 8.0
.target sm_75
.address_size 64
.global .f32 constant = 2e-38;
.global .f64 third = 0.1;
.visible .entry k(.param .u64 out)
{{
    .reg .f32 %f<5>; .reg .f64 %d<5>; .reg .b64 %a<2>; .reg .b32 %r<2>;
    ld.param.u64 %a0, [out];
    ld.global.f32 %f0, [constant];
    mul.rn.f32 %f1, %f0, 0.1;
    st.global.f32 [%a0], %f1;
    ld.global.f64 %d0, [third];
    add.rn.f64 %d1, %d0, 0.2;
    st.global.f64 [%a0+8], %d1;
    add.rz.f64 %d1, %d0, 0.2;
    st.global.f64 [%a0+16], %d1;
    fma.rp.f32 %f2, %f0, 0.7, %f1;
    st.global.f32 [%a0+24], %f2;
    mov.f64 %d2, {constant};
    st.global.f64 [%a0+32], %d2;
    div.rn.f32 %f3, %f0, 3.3;
    st.global.f32 [%a0+40], %f3;
    ret;
}}
"""


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("constant", ["0.1", "1.0/3.0", "1e-310", "6.02214076e23"])
def test_simulated_arithmetic_and_constants_are_the_same_in_any_state(name, constant):
    def run():
        out = np.zeros(6)
        gpuopt.load_ptx(ARITHMETIC.format(constant=constant), device="sim")["k"](1, 1, out)
        return out.tobytes()

    want = run()
    with state(name):
        before = read()
        got = run()
        after = read()
    assert got == want
    assert after == before
    assert np.frombuffer(want)[4] == eval(constant)
    assert np.frombuffer(want, np.float32)[0] > 0
