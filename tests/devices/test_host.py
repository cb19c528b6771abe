"""The cpu's rung `simd`: every instruction set gives the same bits; threads, forks, and speed."""

import os

import numpy as np
import pytest
from conftest import run_python, side_by_side

import gpuopt

SETS = ["baseline", "avx2", "avx512"]

BITS = """
    import hashlib
    import numpy as np, gpuopt
    rng = np.random.default_rng(7)
    digest = hashlib.sha256()
    def tell(value):
        digest.update(np.ascontiguousarray(value).tobytes())
    cpu = {"device": "cpu"}
    simd = next(rung for rung in gpuopt.rungs("reduce") if rung.name == "simd")
    assert simd.best and simd.host
    raw = rng.integers(0, 256, 16 * 70_003, np.uint8)
    for op, items, accumulator in simd.signatures:
        dtype = np.dtype(items)
        for n in (1, 15, 255, 257, 4097, 70_003):
            with np.errstate(all="ignore"):
                array = raw[: n * dtype.itemsize].view(dtype)
                if items == "bool":
                    array = raw[:n] > 40
                elif dtype.kind in "fc":
                    array = (raw[:n].astype(float) - 127.3).astype(dtype) / 64
                    if dtype.kind == "c":
                        array = array + 1j * array[::-1]
                    array = array.astype(dtype)
                tell(gpuopt.reduce(array, op, **cpu))
    for size in ("u1", "u2", "u4", "u8", "c16"):
        width = np.dtype(size).itemsize
        for rows, columns in ((64, 64), (67, 129), (300, 5), (5, 300), (257, 1031)):
            tell(gpuopt.transpose(raw[: rows * columns * width].view(size).reshape(rows, columns)
                                  if rows * columns * width <= raw.size
                                  else np.resize(raw, rows * columns * width)
                                  .view(size).reshape(rows, columns), **cpu))
    for dtype in ("i4", "i8", "f4", "f8"):
        array = raw[: 8 * 70_003 // 8 * np.dtype(dtype).itemsize].view("i1")
        array = np.resize(array, 70_003).astype(dtype) * np.dtype(dtype).type(3)
        for radius in (0, 1, 3, 300):
            for mode in ("reflect", "constant"):
                tell(gpuopt.stencil1d(array, radius, mode=mode, **cpu))
        tell(gpuopt.stencil1d(array, weights=rng.standard_normal(31), mode="wrap", **cpu))
        tell(gpuopt.stencil1d(array, weights=rng.integers(-9, 9, 31), **cpu))
        tell(gpuopt.add(array, array[::-1], **cpu))
    for dtype in ("?", "i1", "i2", "i4", "u8", "f2", "f4", "f8", "c16"):
        array = (rng.standard_normal(3 * 131 * 67) * 50).astype(dtype).reshape(3, 131, 67)
        for view in (array, array[:, ::-2, ::3], array.transpose(2, 0, 1)[:, :, :5]):
            for axis in (0, 1, 2, (0, 1), None):
                for op in ("sum", "prod") if dtype == "c16" else ("sum", "max", "mean", "all"):
                    tell(gpuopt.reduce(view, op, axis=axis, keepdims=True, **cpu))
                if dtype != "c16" and type(axis) is int:
                    tell(gpuopt.reduce(view, "argmin", axis=axis, **cpu))
    for dtype in ("f4", "f8"):
        x = rng.standard_normal(70_003).astype(dtype)
        tell(gpuopt.saxpy(1.7, x, x[::-1], **cpu))
        for m, k, n in ((1, 1, 1), (5, 7, 9), (13, 300, 33), (97, 513, 131), (40, 9001, 1),
                        (1, 9001, 40), (3, 9001, 40), (7, 9001, 9), (50, 9001, 3)):
            a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
            tell(gpuopt.matmul(a, b, variant="simd", **cpu))  # the default is NumPy's BLAS
    print(gpuopt._core.config()["instruction_set"], digest.hexdigest())
"""


def here():
    """Return the instruction sets that this CPU has."""
    found = []
    for name in SETS:
        process = run_python(
            "import gpuopt; gpuopt.reduce([1], device='cpu')", check=False, GPUOPT_CPU_ISA=name
        )
        if process.returncode == 0:
            found.append(name)
        else:
            assert f"ValueError: GPUOPT_CPU_ISA: '{name}' is not an" in process.stderr
    return found


def test_every_instruction_set_gives_the_same_bits():
    """Compare all operations and dtypes of all families over the CPU's instruction sets."""
    sets = here()
    assert sets[0] == "baseline"
    digests = set()
    for name in sets:
        told, digest = run_python(BITS, GPUOPT_CPU_ISA=name, OMP_NUM_THREADS="3").stdout.split()
        assert told == name
        digests.add(digest)
    best, digest = run_python(BITS, GPUOPT_CPU_ISA=None, OMP_NUM_THREADS="1").stdout.split()
    assert best == sets[-1]
    assert digests == {digest}


def test_an_unknown_instruction_set_is_an_error():
    for code in ("gpuopt.reduce([1], device='cpu')", "gpuopt.show_config()"):
        process = run_python(f"import gpuopt; {code}", check=False, GPUOPT_CPU_ISA="mmx")
        assert process.returncode == 1
        assert "ValueError: GPUOPT_CPU_ISA: 'mmx' is not an instruction set" in process.stderr
        assert "'baseline'" in process.stderr
    run_python("import gpuopt; gpuopt.reduce([1], device='cpu')", GPUOPT_CPU_ISA="")


def test_show_config_reports_the_instruction_set():
    process = run_python("import gpuopt; gpuopt.show_config()", GPUOPT_CPU_ISA="baseline")
    assert "instruction set baseline (GPUOPT_CPU_ISA)" in process.stdout


def test_all_rungs_of_reduce_agree_on_large_sizes(rng):
    """Sizes around 2^25, and more than one round of the team."""
    array = rng.standard_normal(2**26 + 2**22 + 5, np.float32)
    exact = {n: float(np.sum(array[:n], dtype=np.longdouble)) for n in (2**25 - 1, 2**25 + 3)}
    for n in (*exact, array.size):
        got = {
            gpuopt.reduce(array[:n], op, variant=variant, device="cpu").tobytes()
            for op in ("sum",)
            for variant in ("serial", "openmp", "simd")
        }
        assert len(got) == 1, n
        if n in exact:
            (bits,) = got
            off = abs(float(np.frombuffer(bits, np.float32)[0]) - exact[n])
            assert off <= np.spacing(np.float32(abs(exact[n])))


def test_results_with_streaming_stores(rng):
    """The sizes use streaming stores on most machines, at every misalignment of the output."""
    n = 9_000_017
    x, y = (rng.integers(-(2**62), 2**62, n) for _ in range(2))
    room = np.empty(n + 8, np.int64)
    for skew in range(8):
        out = room[skew : skew + n]
        out[:] = 0
        gpuopt.add(x, y, out=out, device="cpu")
        assert np.array_equal(out, x + y)
    got = gpuopt.stencil1d(x, 2, device="cpu")
    want = sum(np.pad(x, 2)[k : k + n] for k in range(5))
    assert np.array_equal(got, want)
    for rows, columns in ((3001, 2999), (4096, 2197), (2197, 4096), (9_000_000, 1), (7, 1_285_716)):
        a = x[: rows * columns].reshape(rows, columns)
        for skew in (0, 3):
            out = room[skew : skew + rows * columns].reshape(columns, rows)
            out[:] = 0
            gpuopt.transpose(a, out=out, device="cpu")
            assert np.array_equal(out, a.T)


def test_calls_from_many_threads_at_once(rng):
    """One thread uses the team; the others compute alone."""
    from concurrent.futures import ThreadPoolExecutor

    array = rng.standard_normal(2**21, np.float32)
    want = gpuopt.reduce(array, variant="serial", device="cpu")
    square = rng.standard_normal((300, 300))
    product = gpuopt.matmul(square, square, variant="serial", device="cpu")

    def work(_):
        assert gpuopt.reduce(array, device="cpu").tobytes() == want.tobytes()
        assert (
            gpuopt.matmul(square, square, variant="simd", device="cpu").tobytes()
            == product.tobytes()
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(64)))


def test_a_child_that_imports_gpuopt_after_another_library_used_openmp():
    """The child's OpenMP threads are gone; the default rungs do not need them."""
    run_python(
        """
        import ctypes, os, signal
        import numpy as np
        try:
            openmp = ctypes.CDLL("libgomp.so.1")
        except OSError:
            raise SystemExit(0)
        team = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
        openmp.GOMP_parallel(team, None, 4, 0)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            code = 1
            try:
                import gpuopt
                big = np.ones(2**21)
                assert gpuopt.reduce(big, device="cpu") == 2**21
                assert gpuopt.add(big, big, device="cpu")[-1] == 2
                code = 0
            finally:
                os._exit(code)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, "it hung" if status == 14 else status
        """,
        OMP_NUM_THREADS="4",
    )


@pytest.mark.parametrize("family", ["matmul", "stencil1d"])
def test_ctrl_c_within_one_long_task(family):
    """A single output that takes seconds: the task itself is polled."""
    calls = {
        "matmul": "a = np.ones((8, 2**22), np.float32); b = np.ascontiguousarray(a.T); "
        "f = lambda: gpuopt.matmul(a, b)",
        "stencil1d": "a = np.ones(3000); f = lambda: gpuopt.stencil1d(a, 2**22, mode='wrap')",
    }
    run_python(
        f"""
        import os, signal, threading, time
        import numpy as np, gpuopt
        os.environ["GPUOPT_DEVICE"] = "cpu"
        {calls[family]}
        sent = []
        def send():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        timer = threading.Timer(0.3, send)
        timer.start()
        begin = time.perf_counter()
        try:
            for _ in range(200):
                f()
        except KeyboardInterrupt:
            late = time.perf_counter() - sent[0]
            assert late < 1.0, late
        else:
            raise AssertionError("not interrupted")
        assert gpuopt.reduce(np.ones(10)) == 10
        """,
        OMP_NUM_THREADS="2",
    )


# --- speed


two_cores = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="the bar is for two cores")


@pytest.mark.speed
@two_cores
def test_sum_against_numpy(rng):
    """Float32, 2^25: 1.9 times as fast on two quiet cores."""
    array = rng.standard_normal(2**25, np.float32)
    side_by_side(lambda: gpuopt.reduce(array, device="cpu"), lambda: np.sum(array), 1.6, 15)


@pytest.mark.speed
@two_cores
def test_transpose_against_numpy(rng):
    """Float32, 4096 x 4096: 3 times as fast on two quiet cores."""
    a = rng.standard_normal((4096, 4096), np.float32)
    side_by_side(
        lambda: gpuopt.transpose(a, device="cpu"), lambda: np.ascontiguousarray(a.T), 2.5, 5
    )


@pytest.mark.speed
@two_cores
def test_stencil_against_scipy(rng):
    """Float32, radius 3, 2^24: 3 times as fast on two quiet cores."""
    ndimage = pytest.importorskip("scipy.ndimage")
    a, weights = rng.standard_normal(2**24, np.float32), np.ones(7)
    side_by_side(
        lambda: gpuopt.stencil1d(a, 3, device="cpu"),
        lambda: ndimage.correlate1d(a, weights, mode="constant"),
        3,
        3,
    )


# Least speed-ups over NumPy: half of the figures of two quiet cores, or a little more.
FASTER = {
    "max of 2^24 float32": ("f4", (1 << 24,), lambda a: a, "max", None, 0.8),
    "sum of 2^24 int8": ("i1", (1 << 24,), lambda a: a, "sum", None, 5),
    "sum of every second": ("f4", (1 << 22,), lambda a: a[::2], "sum", None, 0.8),
    "sum of a crop": ("f4", (2000, 2000), lambda a: a[10:-10, 10:-10], "sum", None, 1.2),
    "max of images' crops": (
        "u1", (64, 200, 200, 3), lambda a: a[:, 10:190, 20:180, :2], "max", None, 1.7),
    "sum of blocks": ("f4", (50, 14, 5000), lambda a: a[:, ::2], "sum", 2, 1.3),
    "mean of crops": ("f4", (64, 200, 200), lambda a: a[:, 10:190, 20:180], "mean", 0, 1.4),
    "sums of complex rows": ("c8", (262_144, 64), lambda a: a, "sum", 1, 1.2),
    "sums of complex triples": ("c8", (1 << 20, 3), lambda a: a, "sum", 1, 4),
    "sums of short rows of int8": ("i1", (1 << 20, 20), lambda a: a, "sum", 1, 3),
    "places in long columns": ("i1", (1 << 22, 3), lambda a: a[::2], "argmax", 0, 0.9),
    "products of columns of int32": ("i4", (2048, 2048), lambda a: a, "prod", 0, 0.8),
    "products of complex columns": (
        "c8", (2048, 2048), lambda a: np.where(a.real > 0, a.dtype.type(1j), -1), "prod", 0, 0.7),
    "products of rows of int16": ("i2", (2048, 2048), lambda a: a, "prod", 1, 1.5),
    "places in rows": ("f4", (262_144, 64), lambda a: a, "argmax", 1, 1),
}  # fmt: skip


@pytest.mark.speed
@two_cores
@pytest.mark.parametrize("work", FASTER.values(), ids=FASTER)
def test_reductions_against_numpy(work, rng):
    dtype, shape, part, op, axis, bar = work
    drawn = rng.integers(-100, 100, shape) if dtype != "u1" else rng.integers(0, 200, shape)
    view = part(drawn.astype(dtype))
    numpys = getattr(np, op)
    side_by_side(
        lambda: gpuopt.reduce(view, op, axis=axis, device="cpu"),
        lambda: numpys(view, axis=axis),
        bar,
        9,
    )


# Broadcast operands beside an array of 2048 x 2048.
REPEATED = {
    "a number": ("f4", lambda a: 1, 0.6),
    "a row": ("f4", lambda a: a[0], 0.7),
    "a column of integers": ("i4", lambda a: a[:, :1], 0.7),
}


@pytest.mark.speed
@two_cores
@pytest.mark.parametrize("work", REPEATED.values(), ids=REPEATED)
def test_sums_with_broadcast_operands_against_numpy(work, rng):
    dtype, part, bar = work
    x = rng.integers(-100, 100, (2048, 2048)).astype(dtype)
    y = part(x)
    side_by_side(lambda: gpuopt.add(x, y, device="cpu"), lambda: np.add(x, y), bar, 9)


# Rows, products and columns of matrix products that read a matrix once, float32.
READ_ONCE = {
    "matrix and vector": ((4096, 1024, 1), 0.3),
    "vector and matrix": ((1, 1024, 4096), 0.3),
    "few long sums": ((8, 131_072, 8), 0.5),
}


@pytest.mark.speed
@two_cores
@pytest.mark.parametrize("work", READ_ONCE.values(), ids=READ_ONCE)
def test_products_that_read_a_matrix_once_against_numpy(work, rng):
    """NumPy adds up in float32, which takes half as many vectors."""
    (m, k, n), bar = work
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    side_by_side(lambda: gpuopt.matmul(a, b, device="cpu"), lambda: a @ b, bar, 15)
