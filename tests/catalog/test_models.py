"""The decks' arithmetic, compared with the decks' own figures."""

import ctypes
import math

import numpy as np
import pytest
from conftest import KINDS

import gpuopt
from gpuopt import models


def about(value, share):
    return pytest.approx(value, rel=share)


def test_peak_rates_are_the_decks():
    assert models.peak_bandwidth(384, 900e6) == about(86.4e9, 1e-12)
    assert models.peak_bandwidth(512, 1.14e9) == about(145.92e9, 1e-12)
    assert models.peak_bandwidth(384, 1.85e9) == about(177e9, 4e-3)
    assert models.peak_bandwidth(384, 3.0e9) == about(288e9, 1e-12)
    assert models.peak_flops(512, 1.3e9) == about(1.33e12, 1e-3)
    # Shared memory of the M2090: 32 banks of 16 multiprocessors, every other cycle; registers.
    assert models.peak_bandwidth(4 * 8 * 32 * 16, 1.3e9, 1) * 0.5 == about(1.33e12, 2e-3)
    assert models.peak_bandwidth(12 * 8 * 512, 1.3e9, 1) == about(8e12, 2e-3)


def test_roofline_bound_is_the_decks():
    """The deck rounds intensities to two digits, so 1 percent."""
    assert models.roofline_bound(2 / 8, 177e9) == 44.25e9
    assert models.roofline_bound(2 / 8, 1.33e12) == about(333e9, 2e-3)
    for flops, words, predicted in ((4, 3, 429), (8, 5, 520), (16, 9, 578)):
        assert models.roofline_bound(flops / (4 * words), 1.3e12) == about(predicted * 1e9, 1.1e-2)
    assert models.roofline_bound(100, 177e9, 1.33e12) == 1.33e12


def test_littles_law():
    threads = models.littles_law(24, 8)
    assert threads == 192 and threads / models.WARP == 6
    assert threads / models.WARP / models.GPUS["g80"].warps == 0.25


def test_brents_bound_of_a_tree():
    assert models.brent(10, 6, 2) == 8
    for n in (2, 1024, 2**22):
        log = math.log2(n)
        for p in (1, 7, n):
            assert models.brent(n, n, p) == n
            assert models.brent(n, log, p) == log + (n - log) / p


def test_tree_reduction_counts_steps_and_operations():
    for d in range(25):
        assert models.tree_reduction(2**d).steps == d
        assert models.tree_reduction(2**d).operations == 2**d - 1
    for n in (1, 2, 3, 100, 128**3, 4_194_304):
        for degree in (2, 3, 8, 128):
            tree = models.tree_reduction(n, degree)
            assert degree**tree.steps >= n and (n == 1 or degree ** (tree.steps - 1) < n)
            assert tree.operations == n - 1
            assert tree.operations / (degree - 1) <= tree.nodes <= max(1, n - 1)
    assert models.tree_reduction(8).accesses == 8 + 4 + 4 + 2 + 2 + 1
    # Deck D4 counts 4,227,394 accesses, 0.8% less than its own rule gives: each level of 128 reads
    # N and writes N / 128 words.
    assert models.tree_reduction(4_194_304, 128).accesses == about(4_227_394, 1e-2)


def test_cost_is_processors_times_steps():
    for n in (2**10, 2**22):
        log = math.log2(n)
        assert models.cost(n, log, 1) == n
        assert models.cost(n, log, n) == about(n * (log + 1), 0.02)  # not cost-optimal
        assert models.cost(n, log, n / log) < 2 * n  # cost-optimal


def test_occupancy_of_the_decks():
    found = models.occupancy("m2090", 256, shared=32 * 1024)
    assert (found.blocks, found.warps, found.max_warps) == (1, 8, 48)
    assert found.limiter == "shared" and float(found) == 8 / 48
    # The matmul ladder of deck D2: registers and blocks of its rungs, measured occupancies.
    for registers, threads, occupancy in ((15, 1024, 2 / 3), (20, 1024, 2 / 3), (23, 512, 2 / 3),
                                          (32, 256, 2 / 3), (51, 128, 1 / 3)):  # fmt: skip
        found = models.occupancy("m2090", threads, registers=registers, shared=8192)
        assert found.occupancy == occupancy, registers
    assert models.occupancy("g80", 192).occupancy == 1
    assert models.occupancy("g80", 32).limiter == "blocks"
    assert models.occupancy("g80", 256, registers=11).blocks == 2


def test_each_limiter_binds():
    for name, limits in models.GPUS.items():
        assert models.occupancy(name, limits.threads_per_block).limiter == "threads"
        assert models.occupancy(name, 32).limits["blocks"] == limits.blocks
        assert models.occupancy(name, 256, registers=120).limiter == "registers"
        assert models.occupancy(name, 32, shared=limits.shared_per_block).limiter == "shared"
        fit = limits.shared // limits.shared_per_block  # two on Pascal
        assert models.occupancy(name, 32, shared=limits.shared_per_block).blocks == fit
    assert models.occupancy("h200", 96, registers=40).warps == 48  # 51 fit, four at a time


@pytest.mark.skipif(bool(KINDS["cuda"]), reason=KINDS["cuda"])
def test_occupancy_agrees_with_the_driver():
    """Compare every embedded kernel at many block sizes and amounts of shared memory."""
    device = gpuopt.devices()[0]
    limits = models.gpu(device)
    gpuopt.reduce(np.ones(3), device=device.name)  # the primary context
    cuda = ctypes.CDLL("libcuda.so.1")
    if not hasattr(cuda, "cuOccupancyMaxActiveBlocksPerMultiprocessor"):
        pytest.skip("the driver does not tell")
    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxPushCurrent_v2(context) == 0
    try:
        compared = 0
        for family in ("reduce", "transpose", "stencil1d", "matmul"):
            for rung in gpuopt.rungs(family):
                if rung.host:
                    continue
                ptx = gpuopt._core.kernel_ptx(rung.kernels[-1], 75).encode()
                assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
                function, value = ctypes.c_void_p(), ctypes.c_int()
                assert cuda.cuModuleGetFunction(
                    ctypes.byref(function), module, rung.kernels[-1].encode()
                ) == 0  # fmt: skip

                def attribute(number, function=function, value=value):
                    assert cuda.cuFuncGetAttribute(ctypes.byref(value), number, function) == 0
                    return value.value

                most, static, registers = attribute(0), attribute(1), attribute(4)
                for threads in (32, 64, 96, 128, 160, 224, 256, 384, 512, 640, 768, 1024):
                    for dynamic in (0, 1, 1000, 4096, 10_000, 30_000, 48 * 1024 - static):
                        if threads > most:
                            continue
                        assert cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                            ctypes.byref(value), function, threads, ctypes.c_size_t(dynamic)
                        ) == 0  # fmt: skip
                        got = models.occupancy(
                            limits, threads, registers=registers, shared=static + dynamic
                        )
                        assert got.blocks == value.value, (rung.name, registers, threads, dynamic)
                        compared += 1
                cuda.cuModuleUnload(module)
        assert compared > 500
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        cuda.cuDevicePrimaryCtxRelease_v2(0)


LANES = range(32)


def counts(addresses, size=4):
    return [
        models.transactions(name, addresses, size).count
        for name in ("g80", "gt200", "m2090", "h200")
    ]


def test_transactions():
    assert counts([4 * i for i in LANES]) == [2, 2, 1, 4]
    assert counts([4 * i if i % 3 else None for i in LANES]) == [2, 2, 1, 4]  # idle threads
    permuted = [4 * (i ^ 1) for i in LANES]
    assert counts(permuted) == [32, 2, 1, 4]
    assert counts([4 * i + 4 for i in LANES]) == [32, 3, 2, 5]  # misaligned by a word
    assert counts([12 * i for i in LANES]) == [32, 4, 3, 12]  # a float of a float3
    assert counts([4 * 32 * i for i in LANES]) == [32, 32, 32, 32]
    assert counts([0] * 32) == [32, 2, 1, 1]
    assert counts([8 * i for i in LANES], 8) == [2, 2, 2, 8]
    assert counts([16 * i for i in LANES], 16) == [4, 4, 4, 16]
    assert counts([None] * 32) == [0, 0, 0, 0]
    # Only a half of a half of a segment is used.
    assert models.transactions("gt200", [4 * i for i in range(8)]).moved == 32
    assert models.transactions("gt200", [4 * i for i in range(16)]).moved == 64
    assert models.transactions("g80", [4 * i for i in LANES]).moved == 128
    assert models.transactions("g80", permuted).moved == 32 * 32
    # Segments are of 32 bytes for single bytes, of 64 for 2.
    assert models.transactions("gt200", [0, 32], 1) == models.Transactions(2, 64)
    assert models.transactions("gt200", [0, 64], 2) == models.Transactions(2, 64)
    assert models.transactions("gt200", [0, 64], 4) == models.Transactions(1, 128)
    # Where wide elements are not in order, each is a transaction of its own, of 32 bytes.
    wide = models.transactions("g80", [256 * lane + 16 for lane in range(16)], 16)
    assert wide == models.Transactions(16, 16 * 32)
    # The transpose's strided side: every element its own sector.
    assert models.transactions("h200", [4 * 1024 * i for i in LANES]).count * 1024 * 32 == 2**20


def test_bank_conflicts():
    for stride in range(1, 34):
        addresses = [4 * stride * i for i in LANES]
        assert models.bank_conflicts("h200", addresses).ways == math.gcd(stride, 32)
        assert models.bank_conflicts("g80", addresses).ways == math.gcd(stride, 16)
    assert models.bank_conflicts("h200", [0] * 32).passes == 1  # a broadcast
    permutation = np.random.default_rng(0).permutation(32)
    assert models.bank_conflicts("h200", [4 * int(i) for i in permutation]).conflicts == 0
    assert models.bank_conflicts("h200", [4 * 32 * i for i in LANES]).conflicts == 31
    assert models.bank_conflicts("h200", [4 * 33 * i for i in LANES]).conflicts == 0
    assert models.bank_conflicts("g80", [4 * 17 * i for i in LANES]).conflicts == 0
    assert models.bank_conflicts("h200", [8 * i for i in LANES], 8) == models.Passes(2, 0, 1)
    assert models.bank_conflicts("h200", [16 * i for i in LANES], 16) == models.Passes(4, 0, 1)
    assert models.bank_conflicts("h200", [None] * 32).passes == 0


def test_wrong_arguments():
    for call in (
        lambda: models.gpu("h100x"),
        lambda: models.gpu(next(each for each in gpuopt.devices() if each.kind == "cpu")),
        lambda: models.peak_bandwidth(0, 1e9),
        lambda: models.peak_flops(512, -1),
        lambda: models.peak_flops(512, math.nan),
        lambda: models.littles_law(0, 1),
        lambda: models.brent(5, 6, 1),
        lambda: models.brent(math.inf, math.inf, 2),
        lambda: models.gpu("sim:abacus"),
        lambda: models.gpu("cuda:0"),
        lambda: models.tree_reduction(0),
        lambda: models.tree_reduction(5, 1),
        lambda: models.occupancy("g80", 513),
        lambda: models.occupancy("g80", 0),
        lambda: models.occupancy("g80", 32, shared=16385),
        lambda: models.occupancy("g80", 32, registers=256),
        lambda: models.transactions("g80", [0] * 33),
        lambda: models.transactions("g80", [2]),
        lambda: models.transactions("g80", [0], 3),
        lambda: models.bank_conflicts("g80", [0] * 33),
        lambda: models.bank_conflicts("g80", [-4]),
    ):
        with pytest.raises(ValueError, match=r"^[a-z_]+: "):
            call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: models.gpu(["h200"]), "gpu: must be a preset's name or a device"),
        (lambda: models.gpu(None), "gpu: must be"),
        (lambda: models.peak_bandwidth("384", 9e8), "bus_bits: must be a number, not '384'"),
        (lambda: models.peak_flops(512, None), "clock: must be a number, not None"),
        (lambda: models.littles_law(np.ones(2), 8), "latency: must be a number"),
        (lambda: models.roofline_bound(1, [2]), "bandwidth: must be a number"),
        (lambda: models.cost(8, 3, "many"), "processors: must be a number"),
        (lambda: models.tree_reduction("8"), "n: must be an integer"),
        (lambda: models.transactions("g80", 4), "addresses: must be a sequence"),
        (lambda: models.bank_conflicts("g80", None), "addresses: must be a sequence"),
        (lambda: models.transactions("g80", ["4"]), "addresses: must be an integer"),
    ],
)
def test_arguments_of_another_type_are_named(call, text):
    with pytest.raises(TypeError, match=f"^{text}"):
        call()


def test_numbers_of_any_type_are_accepted():
    assert models.littles_law(np.float32(24), np.int64(8)) == 192
    assert models.brent(10, 6, math.inf) == 6
    assert models.transactions("h200", (4 * lane for lane in LANES)).count == 4
    assert models.bank_conflicts("h200", np.arange(0, 128, 4)).passes == 1


def test_gpu_accepts_a_simulated_devices_name():
    for name, limits in models.GPUS.items():
        assert models.gpu(f"sim:{name}") is limits
    assert models.gpu("sim") is models.gpu(gpuopt.roofline("sim").device)
    assert models.occupancy("sim:h200", 128) == models.occupancy("h200", 128)


def test_public_names_of_models_are_complete():
    names = {}
    exec("from gpuopt.models import *", names)
    assert {"occupancy", "gpu", "GPUS", "WARP"} <= set(names) and "math" not in names
    assert set(models.__all__) == {
        name
        for name, value in vars(models).items()
        if getattr(value, "__module__", "").startswith(("gpuopt.models", "gpuopt.catalog."))
        and name != "Device"
        and not name.startswith("_")
    } | {"GPUS", "WARP"}


def test_fermis_and_keplers_split_of_64_kb():
    """Deck D2: 48 KB of shared memory and 16 of L1, or the reverse."""
    for preset in ("m2090", "k40"):
        more = models.occupancy(preset, 256, shared=8192)
        less = models.occupancy(preset, 256, shared=8192, prefer_l1=True)
        assert (more.blocks, less.blocks, less.limiter) == (6, 2, "shared")
        assert models.occupancy(preset, 256, prefer_l1=True) == models.occupancy(preset, 256)
        with pytest.raises(ValueError, match=r"shared: must be from 0 to 16,384"):
            models.occupancy(preset, 256, shared=16385, prefer_l1=True)
    for preset in ("g80", "gt200", "v100", "h200"):
        with pytest.raises(ValueError, match=r"prefer_l1: .* does not split 64 KB"):
            models.occupancy(preset, 256, prefer_l1=True)
