"""The roofline: verified ceilings, kernels below them, the cache on disk, pictures."""

import dataclasses
import json
import math
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import KINDS, on, run_python

import gpuopt
from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.catalog.devices import device as describe
from gpuopt.families import plans
from gpuopt.measure import ceilings, ladder as ladder_module, roofline
from gpuopt.measure.ceilings import Ceiling
from gpuopt.measure.race import Effort
from gpuopt.show import terminal


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gpuopt"


@pytest.fixture
def small(monkeypatch):
    """Less data and fewer samples, for tests that ignore the rates."""
    monkeypatch.setattr(ceilings, "DRAM_BYTES", {"cpu": (1 << 20,) * 2, "cuda": (1 << 28,) * 2})
    monkeypatch.setattr(ceilings, "SAMPLE_SECONDS", (1e-4, 1e-4))
    monkeypatch.setattr(ceilings, "EFFORT", (Effort(2, 1e-4),) * 2)
    monkeypatch.setattr(ceilings, "CPU_CACHED_BYTES", 1 << 20)
    monkeypatch.setattr(ceilings, "CPU_STEPS", 1 << 10)


def h200():
    """Return a roofline of an H200's figures."""
    device = dataclasses.replace(
        describe("sim:h200"), name="cuda:0", kind="cuda", description="NVIDIA H200"
    )
    rates = {"DRAM read": 4595e9, "DRAM copy": 4302e9, "L2 read": 7e12, "shared memory": 30e12}
    peaks = {"FMA float64": 32e12, "FMA float32": 61e12, "tensor float16": 640e12}
    return gpuopt.Roofline(
        device,
        [Ceiling(name, "B/s", rate) for name, rate in rates.items()]
        + [Ceiling(name, "FLOP/s", rate) for name, rate in peaks.items()],
        date="2026-11-21T00:00:00+00:00",
    )


# --- datasheets


def test_the_decks_m2090():
    roof = gpuopt.roofline("sim:m2090")
    assert roof.source == "datasheet" and "datasheet" in str(roof)
    assert roof.peak().rate == pytest.approx(1.33e12, rel=2e-3)
    assert roof.ceiling("DRAM").rate == 177e9
    assert roof.ceiling("shared memory").rate == pytest.approx(1.33e12, rel=2e-3)
    assert roof.attainable(0.25) == 44.25e9
    assert roof.attainable(1000) == roof.peak().rate
    assert roof.ridge() == pytest.approx(1.33e12 / 177e9, rel=2e-3)


@pytest.mark.parametrize("row", _core.presets(), ids=lambda row: row["name"])
def test_every_preset_has_a_roofline(row, cache):
    roof = gpuopt.roofline(f"sim:{row['name']}")
    names = {each.name for each in roof.ceilings}
    assert {"DRAM", "shared memory", "FMA float32"} <= names
    assert ("FMA float64" in names) == (row["f64_gflops"] > 0)
    assert roof.ceiling("DRAM").rate == row["bandwidth_gbs"] * 1e9
    assert not cache.exists(), "a datasheet is not kept"


# --- measuring


class problem:
    """A roofline problem that is run and not timed: without the copies that cold runs take."""

    def __init__(self, device, words, output, n, repeats):
        self.device, self.result = device, np.full(output, 0xFFFFFFFF, np.uint32)
        shape, dtype = self.result.shape, self.result.dtype
        head = ("roofline", "words", "uint32", "uint32")
        self.problem = inout.Problem(*head, (words,), shape, dtype, (n, repeats))

    def run(self, rung):
        return plans.run(self.problem, (rung, None, self.device), self.result)


@pytest.mark.parametrize(
    ("device", "copy", "write"),
    [
        on("sim", "sim", "copy", "write"),
        on("cpu", "cpu", "memcpy", "host-write"),
        on("cuda", "cuda", "copy", "write"),
    ],
)
@pytest.mark.parametrize("n", [1, 37, 4096, 5001])
def test_copies_and_writes_are_whole(device, copy, write, n):
    words = ceilings._random_words(n)
    for repeats in (1, 2):
        bench = problem(device, words, n, n, repeats)
        assert np.array_equal(bench.run(copy), words)
        assert ceilings._counts_up(bench.run(write), words[0])


@pytest.mark.parametrize(
    ("device", "rung", "output"),
    [
        on("sim", "sim", "read", 7),
        on("sim", "sim", "shared", 3),
        on("cpu", "cpu", "host-read", 64),
        on("cuda", "cuda", "read", 700),
        on("cuda", "cuda", "shared", 300),
    ],
)
def test_reads_see_every_word(device, rung, output):
    words = ceilings._random_words(4096)
    for repeats in (1, 3):
        got = problem(device, words, output, 4096, repeats).run(rung)
        right = ceilings._sum(words, repeats)
        assert (got == right).all() if rung == "shared" else ceilings._sum(got) == right
    changed = words.copy()
    changed[4095] ^= 1
    assert ceilings._sum(problem(device, changed, output, 4096, 1).run(rung)) != ceilings._sum(
        problem(device, words, output, 4096, 1).run(rung)
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("device", [on("sim", "sim"), on("cpu", "cpu"), on("cuda", "cuda")])
@pytest.mark.parametrize("steps", [2, 40, 3000, 4098])
def test_chains_end_where_they_must(device, dtype, steps):
    if device == "cpu" and dtype == "float16":
        pytest.skip("the cpu has no chains of it")
    values = ceilings._chains(dtype)
    words = values.view(np.uint32)
    if device == "cpu":
        output = describe("cpu").multiprocessors * ceilings.CPU_CHAIN_BYTES // 4
    else:
        output = 3 * 256 * 8 * (2 if dtype == "float64" else 1)
    items = output // (2 if dtype == "float64" else 1)
    rung = f"{'host-' if device == 'cpu' else ''}fma-{dtype}"
    got = problem(device, words, output, words.size, steps).run(rung).view(dtype)
    added = steps // 2 if device == "cpu" else steps
    assert np.array_equal(got, ceilings._chains_end(values, dtype, items, added))
    further = ceilings._chains_end(values, dtype, items, added + 1)
    # After 2,048 steps all chains of float16 have reached 2,048 and stay there.
    assert np.array_equal(got, further) == (dtype == "float16" and steps > 2048)


def test_float16_chains_stop_at_2048():
    values = ceilings._chains("float16")
    assert (ceilings._chains_end(values, "float16", 10, 1 << 20) == 2048).all()
    x = np.float16(2047)
    for _ in range(4):
        x = x * np.float16(1) + np.float16(1)
    assert x == 2048


@pytest.mark.parametrize("right", [0, 1])
def test_a_ceiling_is_verified_before_and_after(right, small):
    """A result that is correct before and wrong after the timing has no rate."""
    words, asked = ceilings._random_words(1000), []

    def check(got):
        asked.append(got)
        return len(asked) <= right

    bench = ceilings.WordKernels(
        next(each for each in gpuopt.devices() if each.kind == "cpu"), words, 1000, 1000, 1
    )
    with pytest.raises(gpuopt.VerificationError, match="'memcpy' on cpu gave a wrong result"):
        bench.rate("memcpy", 1.0, check, True)
    assert len(asked) == right + 1


def test_a_wrong_ceiling_is_not_timed(monkeypatch, small):
    class Liar:
        timed = 0
        device = "cpu"

        def __init__(self, *arguments, **more):
            self.bench = real(*arguments, **more)

        def run(self, rung):
            got = self.bench.run(rung)
            got[-1] += rung == "host-write"
            return got

        def time(self, rung, **more):
            Liar.timed += rung == "host-write"
            return self.bench.time(rung, **more)

    real = _core.Workbench
    monkeypatch.setattr(_core, "Workbench", Liar)
    with pytest.raises(gpuopt.VerificationError, match="host-write"):
        gpuopt.roofline("cpu", quick=True)
    assert Liar.timed == 0


@pytest.mark.parametrize("bad", [(0, 16, 16), (17, 16, 16)], ids=["none", "more than there is"])
def test_problems_beyond_memory_are_refused(bad):
    n, output, length = bad
    for device, rung in (("sim", "copy"), ("cpu", "memcpy"), ("cpu", "host-fma-float32")):
        with pytest.raises(ValueError, match="problem: "):
            problem(device, np.ones(length, np.uint32), output, n, 1).run(rung)


def test_the_cpu_measured(small, cache):
    told = []
    roof = gpuopt.roofline("cpu", quick=True, progress=lambda *each: told.append(each))
    names = [each.name for each in roof.ceilings]
    assert names[:3] == ["DRAM read", "DRAM write", "DRAM copy"]
    assert names[-2:] == ["FMA float64", "FMA float32"]
    assert all(0 < each.rate < 1e16 and each.spread >= 0 for each in roof.ceilings)
    assert roof.source == "measured" and roof.quick and roof.version == gpuopt.__version__
    shares = [share for _, share in told]
    assert shares == sorted(shares) and all(0 <= share <= 1 for share in shares)
    assert len(list(cache.iterdir())) == 1


# --- the cache on disk


def measured_once(monkeypatch):
    monkeypatch.setitem(ladder_module.COPY_BYTES, "cpu", 1 << 20)
    calls = []

    def measure(device, quick, progress):
        calls.append(quick)
        rates = {"DRAM read": 1e9, "FMA float64": 1e9, "FMA float32": 2e9}
        return [Ceiling(name, f"{'B' if 'DRAM' in name else 'FLOP'}/s", rate)
                for name, rate in rates.items()]  # fmt: skip

    monkeypatch.setattr(ceilings, "measure", measure)
    return calls


def test_measured_once_and_kept(monkeypatch, cache):
    calls = measured_once(monkeypatch)
    first = gpuopt.roofline("cpu")
    assert gpuopt.roofline("cpu") == first and calls == [False]
    assert gpuopt.roofline("cpu", quick=True) == first and calls == [False]  # better than asked for
    gpuopt.roofline("cpu", fresh=True)
    assert calls == [False, False]
    (file,) = cache.iterdir()
    kept = json.loads(file.read_text())
    assert kept["version"] == gpuopt.__version__ and kept["date"] and "driver" in kept
    assert gpuopt.roofline("cpu", dtype="float64").dtype == "float64"  # not kept as the default
    assert gpuopt.roofline("cpu").dtype == "float32"


def test_a_quick_answer_is_not_given_for_a_full_one(monkeypatch):
    calls = measured_once(monkeypatch)
    gpuopt.roofline("cpu", quick=True)
    assert not gpuopt.roofline("cpu").quick and calls == [True, False]


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        '{"kind": "roofline", "format": 1}',
        "\udcff",
        "ceilings",
        "peak",
    ],
)
def test_a_broken_file_is_measured_again(monkeypatch, cache, broken):
    calls = measured_once(monkeypatch)
    gpuopt.roofline("cpu")
    (file,) = cache.iterdir()
    if broken == "ceilings":
        told = json.loads(file.read_text())
        told["ceilings"][0]["rate"] = math.nan
        broken = json.dumps(told)
    elif broken == "peak":
        told = json.loads(file.read_text())
        told["ceilings"] = [each for each in told["ceilings"] if "FMA" not in each["name"]]
        broken = json.dumps(told)
    file.write_bytes(broken.encode(errors="surrogateescape"))
    assert gpuopt.roofline("cpu").ceiling("DRAM").rate == 1e9
    assert calls == [False, False]
    assert json.loads(file.read_text())["kind"] == "roofline"


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    calls = measured_once(monkeypatch)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    gpuopt.roofline("cpu")
    gpuopt.roofline("cpu")
    assert calls == [False, False]


def test_a_user_without_a_home_keeps_nothing(monkeypatch):
    calls = measured_once(monkeypatch)

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(roofline.Path, "home", home)
    assert gpuopt.roofline("cpu").ceiling("DRAM").rate == gpuopt.roofline("cpu").ceilings[0].rate
    assert calls == [False, False]


def test_another_clock_or_driver_is_another_file(monkeypatch):
    device = describe("cpu")
    first = roofline._cache_file(device)
    assert roofline._cache_file(dataclasses.replace(device, clock_mhz=1.0)) != first
    monkeypatch.setattr(roofline, "_driver", lambda: "CUDA 99.9")
    assert roofline._cache_file(device) != first


# --- the roofline as an object


def test_json_and_back():
    roof = h200()
    roof.place("kernel", 1e9, 1e6, 1e-3)
    assert gpuopt.Roofline.from_dict(json.loads(json.dumps(roof.to_dict()))) == roof
    assert gpuopt.Roofline.from_dict(roof.to_dict() | {"matmul": []}) == roof
    for broken in ({}, {"kind": "ladder", "format": 1}, {**roof.to_dict(), "format": 0}, []):
        with pytest.raises(ValueError, match="told: "):
            gpuopt.Roofline.from_dict(broken)


def test_the_binding_ceiling_is_named():
    roof = h200()
    memory = roof.bound(roof.place("sum", 1 << 28, 4 << 28, (4 << 28) / 4e12))
    assert (memory.ceiling, memory.unit) == ("DRAM read", "B/s")
    assert memory.share == pytest.approx(4000 / 4595)
    compute = roof.bound(roof.place("product", 2 * 4096**3, 3 * 4 * 4096**2, 5e-3))
    assert (compute.ceiling, compute.unit) == ("FMA float32", "FLOP/s")
    assert "bound by arithmetic (FMA float32)" in str(compute)
    assert roof.bound("sum") == memory
    double = roof.bound(roof.place("double", 1e12, 1e9, 1, dtype="float64"))
    assert double.ceiling == "FMA float64"
    cached = roof.bound(roof.place("warm", 1 << 20, 6e6, 1e-6))  # 6 TB/s
    assert cached.ceiling == "L2 read" and "cache" in str(cached)
    whole = roof.bound(roof.place("int", 1e12, 1e6, 1, dtype="int32"))
    assert whole.ceiling == "FMA float32"
    copied = roof.bound(roof.place("copy", 0, 1e9, 1e-3))
    assert copied.ceiling == "DRAM read" and copied.share == pytest.approx(1000 / 4595)


def test_bound_allows_two_percent_above_a_ceiling():
    roof = gpuopt.roofline("sim:m2090")
    roof.ceilings.append(gpuopt.Ceiling("L2 read", "B/s", 4e11))
    for factor, name in ((1.02, "DRAM"), (1.05, "L2 read")):
        assert roof.bound(roof.place(name, 1.0, factor * 177e9, 1.0)).ceiling == name


def test_errors_list_the_valid_names():
    roof = h200()
    with pytest.raises(ValueError, match=r"'DRAM read', 'DRAM copy'"):
        roof.attainable(1, memory="disk")
    with pytest.raises(ValueError, match="intensity: must be more than 0"):
        roof.attainable(0)
    with pytest.raises(ValueError, match="intensity"):
        roof.attainable(math.nan)
    with pytest.raises(ValueError, match="not placed; there is none yet"):
        roof.bound("nothing")
    for flops, size, seconds in ((0, 0, 1), (1, 1, 0), (-1, 1, 1), (1, 1, math.nan),
                                 (math.inf, 1, 1), (1, math.inf, 1), (1, 1, math.inf),
                                 (1, 10**400, 1), (1e300, 1, 1e-300), (1e-300, 1, 1e300),
                                 (1e300, 1e-300, 1), (1e-300, 1e300, 1)):  # fmt: skip
        with pytest.raises(ValueError, match=r"^(flops|bytes|seconds|flops, bytes|.*ratios)"):
            roof.place("bad", flops, size, seconds)
    for flops, size, seconds in (("1", 1, 1), (1, None, 1), (1, 1, [1]), (1j, 1, 1)):
        with pytest.raises(TypeError, match=r"^(flops|bytes|seconds): must be a number"):
            roof.place("bad", flops, size, seconds)
    for dtype, error in (("foo", TypeError), (3, TypeError), ("object", TypeError),
                         ("float16", ValueError), ("tensor int4", ValueError)):  # fmt: skip
        with pytest.raises(error, match=r"^(dtype|ceiling): "):
            roof.place("bad", 1, 1, 1, dtype=dtype)
    assert not roof.points and "ridge" in str(roof), "what was refused is not there"
    with pytest.raises(ValueError, match="'float64', 'float32', 'float16'"):
        gpuopt.roofline("sim", dtype="int4")
    with pytest.raises(ValueError, match="dtype: 'int32' is not a dtype with a ceiling"):
        gpuopt.roofline("sim", dtype=np.int32)
    with pytest.raises(TypeError, match="dtype: 7 is not a dtype"):
        gpuopt.roofline("sim", dtype=7)
    with pytest.raises(ValueError, match=r"'FMA float16' is not a ceiling of sim:m2090; use"):
        gpuopt.roofline("sim:m2090", dtype="float16")
    with pytest.raises(ValueError, match="'cuda'"):
        gpuopt.roofline("abacus")
    counted = gpuopt.ladder("add", 1024, device="sim")
    with pytest.raises(ValueError, match="counters and no times"):
        roof.add(counted)
    counted.copy_bandwidth = 1.0  # as if it were timed
    with pytest.raises(ValueError, match="NVIDIA H200"):
        roof.add(counted)


@pytest.mark.parametrize("dtype", [np.dtype("float64"), np.float64, float, "f8", "float64"])
def test_dtypes_of_any_form_are_taken(dtype):
    roof = h200()
    point = roof.place("double", 1e12, 1e9, 1, dtype=dtype)
    assert point.dtype == "float64" and roof.bound(point).ceiling == "FMA float64"
    assert roof.peak(dtype) == roof.peak("float64")
    assert roof.attainable(1e6, dtype=dtype) == 32e12
    assert json.dumps(roof.to_dict()) and "FMA float64" in str(roof)
    if dtype != "f8":
        double = gpuopt.roofline("sim:m2090", dtype=dtype)
        assert double.dtype == "float64" and double.peak().name == "FMA float64"


def test_a_ladder_on_the_roofline(monkeypatch):
    measured_once(monkeypatch)
    roof = gpuopt.roofline("cpu")
    timed = gpuopt.ladder("saxpy", 1000, device="cpu", rounds=1)
    assert roof.add(timed) is roof
    assert [each.name for each in roof.points] == ["saxpy serial", "saxpy openmp", "saxpy simd"]
    assert roof.points[0].flops == 2000 and roof.points[0].bytes == 12000
    text = str(roof)
    assert "a  saxpy serial: bound by" in text and "\nb  saxpy openmp" in text


def test_the_drawing_shows_ramp_roof_and_points():
    roof = h200()
    for at in range(30):  # more than letters
        roof.place(f"kernel {at}", 10.0 ** (at % 5 + 9), 1e9, 1e-2)
    roof.place("copy", 0, 1e9, 1e-3)
    lines = str(roof).splitlines()
    drawing = [line for line in lines if line.startswith("  |")]
    assert len(drawing) == terminal.HEIGHT and max(map(len, lines)) < 120
    assert any("///" in line for line in drawing) and any("-----" in line for line in drawing)
    assert any(re.search("[a-z]", line) for line in drawing)
    assert lines[-1].strip().startswith("copy: bound by memory")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4595e9, "B/s", "4,595 GB/s"),
        (86.4e9, "B/s", "86.4 GB/s"),
        (1.33e12, "FLOP/s", "1.33 TFLOP/s"),
        (61e12, "FLOP/s", "61.0 TFLOP/s"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (666e9, "FLOP/s", "666 GFLOP/s"),
    ],
)
def test_rates_have_a_readable_unit(value, unit, text):
    assert terminal.rate(value, unit) == text


# --- the case study


def test_the_decks_case_study():
    study = gpuopt.matmul_case_study("sim:m2090")
    rows = {row.rung: row for row in study.rows}
    assert rows["naive"].predicted == pytest.approx(44.25e9)
    for name, predicted, measured in (
        ("shared", 333, 227.6),
        ("2-targets", 429, 332.3),
        ("4-targets", 520, 424.7),
        ("8-targets", 578, 474.2),
    ):
        assert rows[name].predicted / 1e9 == pytest.approx(predicted, rel=0.04)  # it rounds more
        assert rows[name].deck / 1e9 == pytest.approx(measured, rel=0.002)
        assert rows[name].deck_predicted == 1e9 * predicted
        assert rows[name].measured == 0
    assert "a simulated GPU has no clock" in str(study)
    lines = str(study).partition("registers")[0].splitlines()  # another table follows
    shares = {line.split()[0]: line.split()[-1] for line in lines if line.endswith("%")}
    assert shares == {  # the deck's own; the first was fed by caches
        "naive": "164%", "shared": "68%", "2-targets": "77%", "4-targets": "82%",
        "8-targets": "82%",
    }  # fmt: skip


def test_the_case_study_measured(monkeypatch):
    measured_once(monkeypatch)
    study = gpuopt.matmul_case_study("cpu", 64)
    assert [row.rung for row in study.rows] == ["serial", "openmp", "simd"]
    assert all(row.measured > 0 and row.predicted == 2e9 for row in study.rows)
    again = gpuopt.matmul_case_study(measured=gpuopt.ladder("matmul", 1024, device="cpu", rounds=1))
    assert again.n == 32 and again.device.name == "cpu"
    assert set(again.records()[0]) >= {"rung", "predicted", "measured"}
    with pytest.raises(ValueError, match="measured: "):
        gpuopt.matmul_case_study(measured=gpuopt.ladder("matmul", 10, device="sim"))
    with pytest.raises(ValueError, match="n: "):
        gpuopt.matmul_case_study("cpu", 0)
    for n in ("64", 64.0, None):
        with pytest.raises(TypeError, match="n: must be an integer"):
            gpuopt.matmul_case_study("cpu", n)
    with pytest.raises(TypeError, match="measured: must be a ladder, not 'matmul'"):
        gpuopt.matmul_case_study(measured="matmul")


def test_the_case_study_is_of_the_ladders_dtype_and_machine(monkeypatch):
    measured_once(monkeypatch)
    ladder = gpuopt.ladder("matmul", 1024, dtype="float64", device="cpu", rounds=1)
    study = gpuopt.matmul_case_study(measured=ladder)
    assert study.dtype == "float64" and "32 x 32 float64, on" in str(study)
    for row in study.rows:  # 2 n^3 operations for three matrices of 8-byte elements
        assert row.intensity == pytest.approx(2 * 32 / (3 * 8)) and row.predicted == 1e9
    ladder.device = dataclasses.replace(ladder.device, description="another")
    with pytest.raises(ValueError, match=r"measured: was measured on another, but cpu is "):
        gpuopt.matmul_case_study(measured=ladder)


def test_a_ceiling_is_the_best_sample(monkeypatch):
    """Other load only lengthens samples, by ticks of 4 ms."""
    samples = iter([1.0, 1.0, 1.0, 3.0, 1.0, 2.0, 3.0, 3.0])

    class Loaded:
        device = "cpu"

        def __init__(self, *arguments, **more):
            pass

        def run(self, rung):
            return True

        def time(self, rung, runs):
            return next(samples)

    monkeypatch.setattr(_core, "Workbench", Loaded)
    monkeypatch.setattr(ceilings, "EFFORT", (Effort(5, 1e-4, slow_seconds=math.inf),) * 2)
    problem = ceilings.WordKernels(describe("cpu"), np.zeros(4, np.uint32), 4, 4, 1)
    rate, spread = problem.rate("memcpy", 8.0, bool, True)
    assert rate == 8.0 and spread == 1.0


# --- plots


def crowded():
    roof = h200()
    for at in range(7):
        roof.place(f"reduce {at + 1}", 1 << 22, 4 << 22, (9 + 3 * at) * 1e-6)
    for at in range(5):
        roof.place(f"matmul {at + 1}", 2 * 4096**3, 12 * 4096**2, (7 + 8 * at) * 1e-3)
    return roof


def test_labels_of_the_plot_do_not_overlap():
    pytest.importorskip("matplotlib").use("agg")
    axes = crowded().plot()
    figure = axes.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    named = [text for text in axes.texts if re.match("(reduce|matmul) ", text.get_text())]
    assert len(named) == 12
    boxes = [text.get_window_extent(renderer) for text in named]
    assert not any(a.overlaps(b) for at, a in enumerate(boxes) for b in boxes[:at])
    inside = axes.get_window_extent(renderer)
    for text, box in zip(axes.texts, [t.get_window_extent(renderer) for t in axes.texts],
                         strict=True):  # fmt: skip
        assert inside.x0 - 1 <= box.x0 and box.x1 <= inside.x1 + 1, text.get_text()
    import matplotlib.pyplot as plt

    plt.close(figure)


def test_a_name_is_no_mathematics():
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    roof = h200()
    roof.place(r"cost $\frac$ of a_b", 1e9, 1e9, 1)
    axes = roof.plot()
    axes.figure.canvas.draw()  # matplotlib's parser would refuse it
    assert any(r"cost $\frac$ of a_b" in text.get_text() for text in axes.texts)
    plt.close(axes.figure)


def test_a_figure_that_draws_to_files_alone_has_its_labels():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = crowded().plot(Figure().add_subplot())
    assert sum(text.get_text().startswith("reduce ") for text in axes.texts) == 7
    run_python("""
        import io, gpuopt
        roof = gpuopt.roofline("sim:m2090")
        roof.place("one", 1e9, 1e9, 1)
        import matplotlib.pyplot as plt
        assert plt.get_backend() == "svg" and not hasattr(plt.figure().canvas, "get_renderer")
        roof.plot().figure.savefig(io.BytesIO(), format="svg")
    """, MPLBACKEND="svg")  # fmt: skip


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'gpuopt[plot]'")):
        h200().plot()
    assert "ridge" in str(h200())


def test_importing_gpuopt_imports_neither_matplotlib_nor_tqdm():
    run_python("""
        import sys, gpuopt
        str(gpuopt.roofline("sim:g80"))
        assert not {"matplotlib", "tqdm", "cupy", "torch", "jax"} & set(sys.modules)
    """)


def test_the_command_line(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "gpuopt", "roofline", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    done = run("--device", "sim:m2090", "--matmul", "-o", str(tmp_path / "roof.svg"))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "1.33 TFLOP/s" in done.stdout and "72.5 GFLOP/s" in done.stdout
    assert "<svg" in (tmp_path / "roof.svg").read_text()
    done = run("--device", "sim:k40", "--json")
    assert gpuopt.Roofline.from_dict(json.loads(done.stdout)).device.name == "sim:k40"
    done = run("--device", "abacus")
    assert done.returncode == 1 and done.stderr.startswith("gpuopt: device: 'abacus'")


# --- the bars, on an H200

cuda = pytest.mark.skipif(bool(KINDS["cuda"]), reason=KINDS["cuda"])


@pytest.fixture(scope="module")
def measured():
    if KINDS["cuda"]:
        pytest.skip(KINDS["cuda"])
    begin = time.monotonic()
    roof = gpuopt.roofline("cuda", fresh=True)
    return roof, time.monotonic() - begin


@cuda
def test_every_ceiling_of_a_gpu_is_measured(measured):
    roof, _ = measured
    names = [each.name for each in roof.ceilings]
    assert names == [
        "DRAM read", "DRAM write", "DRAM copy", "L2 read", "shared memory",
        "FMA float64", "FMA float32", "FMA float16", "tensor float16",
    ]  # fmt: skip
    assert roof.driver.startswith("CUDA ")
    assert roof.ceiling("shared memory").rate > roof.ceiling("L2 read").rate
    assert roof.ceiling("L2 read").rate > roof.ceiling("DRAM read").rate
    assert roof.ceiling("tensor float16").rate > roof.ceiling("FMA float16").rate


@cuda
@pytest.mark.speed
def test_an_h200s_ceilings(measured):
    roof, seconds = measured
    if "H200" not in roof.device.description:
        pytest.skip(f"the bars are an H200's, not {roof.device.description}'s")
    # Rates of other kernels: a ceiling is at least that, and below the memory's 4.8 TB/s.
    for name, rate in (("DRAM read", 4595e9), ("DRAM copy", 4302e9), ("DRAM write", 4369e9)):
        assert 0.97 * rate <= roof.ceiling(name).rate <= 4.8e12, name
    assert 60e12 <= roof.ceiling("FMA float32").rate <= 67e12 * 1.03
    assert seconds < 60
    begin = time.monotonic()
    gpuopt.roofline("cuda", quick=True, fresh=True)
    assert time.monotonic() - begin < 10
